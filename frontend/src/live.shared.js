// One connection for all tabs. Each tab gets every line of the log once; the connection ends with the last tab.
const tabs = new Map() // port → when it was last heard
let stream = null
let after = null

function say(message) {
  for (const port of tabs.keys()) port.postMessage(message)
}

function connect() {
  if (stream) return
  stream = new EventSource(after ? `events?after=${encodeURIComponent(after)}` : 'events')
  stream.addEventListener('open', () => say({type: 'open'}))
  stream.addEventListener('log', (event) => {
    after = event.lastEventId
    say({type: 'log', id: event.lastEventId, data: JSON.parse(event.data)})
  })
  for (const type of ['state', 'reset'])
    stream.addEventListener(type, (event) => {
      after = event.lastEventId || after
      say({type, data: JSON.parse(event.data)})
    })
  stream.addEventListener('error', () => {
    say({type: 'lost'})
    if (stream.readyState === EventSource.CLOSED) {
      // refused: the browser does not try again by itself
      stream = null
      setTimeout(() => {
        if (tabs.size) connect()
      }, 3000)
    }
  })
}

function leave(port) {
  tabs.delete(port)
  if (!tabs.size && stream) {
    stream.close()
    stream = null
  }
}

onconnect = ({ports: [port]}) => {
  tabs.set(port, Date.now())
  port.onmessage = ({data}) => {
    if (data === 'bye') leave(port)
    else tabs.set(port, Date.now())
  }
  connect()
  if (stream.readyState === EventSource.OPEN) port.postMessage({type: 'open'})
}

// Tabs say that they are there every 30 s (a hidden tab at least every minute). One that was killed says nothing.
setInterval(() => {
  for (const [port, heard] of tabs) if (Date.now() - heard > 240_000) leave(port)
}, 60_000)
