// Builds the page of `whyrun view` and `whyrun report` into src/whyrun/viewer/assets/ (or into the folder given).
// The same sources give the same bytes: no dates, no absolute paths, no source maps.
import {build, transform} from 'esbuild'
import {mkdir, readFile, writeFile} from 'node:fs/promises'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const target = process.argv[2] ?? join(here, '../src/whyrun/viewer/assets')
const LIMIT = 300_000 // bytes of all assets together

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  format: 'iife',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
  define: {'process.env.NODE_ENV': '"production"'},
}

async function script(entry, plugins = []) {
  const {
    outputFiles: [file],
  } = await build({...common, entryPoints: [entry], plugins})
  return file.text
}

// Style sheets become strings: the page adopts them, because its CSP allows no style elements.
const styles = {
  name: 'styles',
  setup(builder) {
    builder.onLoad({filter: /\.css$/}, async ({path}) => {
      const {code} = await transform(await readFile(path, 'utf8'), {loader: 'css', minify: true})
      return {contents: code.trim(), loader: 'text'}
    })
  },
}

// Indentation inside templates is not sent to the browser; the line breaks stay, so code and text mean the same.
const indentation = {
  name: 'indentation',
  setup(builder) {
    builder.onLoad({filter: /src\/.*\.js$/}, async ({path}) => ({
      contents: (await readFile(path, 'utf8')).replaceAll(/\n[ \t]+/g, '\n'),
      loader: 'js',
    }))
  },
}

// The layout of the graph runs in a worker that starts from a blob, because a report has no other files.
const workers = {
  name: 'workers',
  setup(builder) {
    builder.onResolve({filter: /\.worker\.js$/}, ({path, resolveDir}) => ({
      path: join(resolveDir, path),
      namespace: 'worker',
    }))
    builder.onLoad({filter: /.*/, namespace: 'worker'}, async ({path}) => ({
      contents: await script(path),
      loader: 'text',
    }))
  },
}

// A report has the script inside its HTML. An HTML parser must not find an end or a comment in it.
function inlineable(code) {
  const safe = code.replaceAll('<!--', '<\\!--').replaceAll(/<(\/?script)/gi, '\\x3C$1')
  if (/<!--|<\/?script/i.test(safe)) throw new Error('the bundle cannot stand inside HTML')
  return safe
}

const files = {
  'app.js': inlineable(await script('src/main.js', [styles, workers, indentation])),
  'live.js': await script('src/live.shared.js'),
}
await mkdir(target, {recursive: true})
let total = 0
for (const [name, text] of Object.entries(files)) {
  await writeFile(join(target, name), text)
  total += Buffer.byteLength(text)
  console.log(`${name.padEnd(12)} ${Buffer.byteLength(text)} bytes`)
}
if (total > LIMIT) throw new Error(`the assets have ${total} bytes; the limit is ${LIMIT}`)
