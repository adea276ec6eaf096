// Connects the page with the SharedWorker that listens to the server, and asks again for what changed.

export function listen(url, data, onEvent) {
  let version = null
  let port
  const start = () => {
    port = new SharedWorker(url, {name: 'whyrun'}).port
    port.onmessage = ({data: message}) => {
      if (message.type === 'state') {
        if (message.data.version !== version) {
          version = message.data.version
          data.invalidate()
        }
      } else if (message.type === 'reset') data.invalidate()
      else if (message.type === 'lost') version = null // another server may count its versions anew
      onEvent(message)
    }
    port.start?.()
  }
  start()
  setInterval(() => port.postMessage('here'), 30_000)
  addEventListener('pagehide', () => port.postMessage('bye'))
  addEventListener('pageshow', (event) => {
    if (event.persisted) {
      start()
      data.invalidate()
    }
  })
}
