// Every state has a shape, a word and a colour. The shape and the word say it without the colour.
import {svg} from 'lit'

// Shapes in a box of 12 × 12. A canvas draws the same paths.
const SHAPES = {
  diamond: 'M6 .6 11.4 6 6 11.4.6 6Z',
  disc: 'M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2Z',
  ring: 'M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1Zm0 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z',
  square: 'M1.6 1.6h8.8v8.8H1.6Z',
  play: 'M2.4 1 11 6l-8.6 5Z',
  pause: 'M2 1.4h2.8v9.2H2Zm5.2 0H10v9.2H7.2Z',
  reuse: 'M6 1a5 5 0 0 0-3.5 8.5L1 11h4.4V6.6L3.9 8.1A3 3 0 1 1 6 9v2A5 5 0 0 0 6 1Z',
  dash: 'M1.2 4.8h9.6v2.4H1.2Z',
  pin: 'M3.4.8h5.2L8 2v2.8l1.8 1.8v1H6.7V11L6 11.8 5.3 11V7.6H2.2v-1L4 4.8V2Z',
  dots:
    'M2 4.7' + 'a1.3 1.3 0 1 0 0 2.6 1.3 1.3 0 0 0 0-2.6Zm4 0'.repeat(2) + 'a1.3 1.3 0 1 0 0 2.6 1.3 1.3 0 0 0 0-2.6Z',
  stop: 'M3.9.9h4.2l3 3v4.2l-3 3H3.9l-3-3V3.9Z',
}

// `tone` names the colours in style.css. The order is that of bars and filters.
export const STATES = {
  running: {word: 'running', shape: 'play', tone: 'live', means: 'it executes now'},
  failed: {word: 'failed', shape: 'square', tone: 'bad', means: 'its last attempt failed'},
  planned: {word: 'will run', shape: 'diamond', tone: 'run', means: 'the next run executes it'},
  reused: {word: 'reused', shape: 'reuse', tone: 'reuse', means: 'an earlier result is taken'},
  deferred: {word: 'deferred', shape: 'pause', tone: 'wait', means: 'it would run, but was not asked for'},
  open: {word: 'not known yet', shape: 'dots', tone: 'wait', means: 'an earlier job decides'},
  pinned: {word: 'pinned', shape: 'pin', tone: 'ok', means: 'its result is kept on purpose'},
  inactive: {word: 'inactive', shape: 'dash', tone: 'off', means: 'a condition is false'},
  clean: {word: 'up to date', shape: 'disc', tone: 'ok', means: 'nothing that it reads has changed'},
}

// In a report of a run, the plan is the one that this run has executed.
export function inThePast() {
  STATES.planned = {...STATES.planned, word: 'planned', means: 'this run was to execute it'}
}

const OUTCOMES = {
  succeeded: {word: 'succeeded', shape: 'disc', tone: 'ok'},
  timed_out: {word: 'timed out', shape: 'square', tone: 'bad'},
  interrupted: {word: 'interrupted', shape: 'stop', tone: 'bad'},
  skipped: {word: 'skipped', shape: 'dash', tone: 'off'},
  blocked: {word: 'blocked', shape: 'pause', tone: 'wait'},
  never: {word: 'never ran', shape: 'ring', tone: 'off'},
  never_run: {word: 'never ran', shape: 'ring', tone: 'off'},
  executed: {word: 'executed', shape: 'disc', tone: 'ok'},
  waiting: {word: 'waiting', shape: 'ring', tone: 'off'},
}

// A state that this page does not know is shown by its name.
export const stateOf = (name) =>
  STATES[name] ??
  OUTCOMES[name] ??
  STATES[String(name).toLowerCase()] ??
  OUTCOMES[String(name).toLowerCase()] ?? {word: String(name).replaceAll('_', ' '), shape: 'ring', tone: 'off'}

// The letters of the states in `cells`, in plans and in what-if answers.
export const LETTERS = {c: 'clean', p: 'planned', r: 'reused', d: 'deferred', i: 'inactive', o: 'open', n: 'pinned'}

export const wordOf = (name) => (STATES[name] ?? OUTCOMES[name])?.word ?? name

export function lettersOf(text) {
  const counts = {}
  for (const letter of text) {
    const name = LETTERS[letter] ?? letter
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

export const ORDER = Object.keys(STATES)
export const rank = (name) => ORDER.indexOf(name) + 1 || ORDER.length + 1

export const shapePath = (name) => SHAPES[stateOf(name).shape]

export const glyph = (
  name,
  extra = '',
) => svg`<svg class="glyph tone-${stateOf(name).tone} ${extra}" viewBox="0 0 12 12"
  width="12" height="12" aria-hidden="true"><path fill-rule="evenodd" d=${shapePath(name)}></path></svg>`
