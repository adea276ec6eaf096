// Where the steps of a run stand in time: attempts on lanes, and idle gaps made short. Pure.

const GAP = 0.05 // the share of the width that an idle gap keeps

// Seconds → 0…1, with each gap drawn as long as a twentieth of the busy time.
export function scaleOf({duration, gaps = []}, now = duration) {
  const end = Math.max(duration ?? 0, now ?? 0, 0.001)
  const idle = gaps.map(([from, to]) => [Math.max(from, 0), Math.min(to, end)]).filter(([from, to]) => to > from)
  const busy = Math.max(end - idle.reduce((sum, [from, to]) => sum + to - from, 0), end * 1e-6)
  const short = busy * GAP
  const whole = busy + short * idle.length
  const at = (seconds) => {
    let x = seconds
    for (const [from, to] of idle)
      if (seconds > from) x -= Math.min(seconds, to) - from - short * Math.min((seconds - from) / (to - from), 1)
    return Math.min(Math.max(x / whole, 0), 1)
  }
  return {at, end, gaps: idle.map(([from, to]) => ({from: at(from), to: at(to), seconds: to - from}))}
}

// [{step, attempt, start, end, status, lane}]: no two of a lane at the same time.
export function lanesOf({step = [], attempt = [], start = [], end = [], status = [], retry = []}, until) {
  const order = step.map((_, at) => at).sort((a, b) => start[a] - start[b])
  const free = []
  return order.map((at) => {
    const stop = end[at] ?? until
    let lane = free.findIndex((time) => time <= start[at] + 1e-9)
    if (lane < 0) lane = free.push(0) - 1
    free[lane] = stop
    return {
      step: step[at],
      attempt: attempt[at],
      start: start[at],
      end: stop,
      open: end[at] === null,
      status: status[at],
      retry: retry[at],
      lane,
    }
  })
}

export const TONES = {
  EXECUTES: 'ok',
  SUCCEEDED: 'ok',
  COMPLETED: 'ok',
  RUNNING: 'live',
  FAILED: 'bad',
  TIMED_OUT: 'bad',
  INTERRUPTED: 'bad',
  SKIPS: 'off',
  REUSED: 'reuse',
  BLOCKED: 'wait',
  ADOPTED: 'reuse',
}
export const toneOf = (status) => TONES[String(status).toUpperCase()] ?? 'off'
