// Puts somebody else's HTML into a frame where no script runs. This page itself has an opaque origin
// and may load nothing, so not even a mistake here reaches the dashboard or the network.
addEventListener('message', event => {
  if (event.source !== parent || typeof event.data?.html !== 'string') return
  const inner = document.createElement('iframe')
  inner.setAttribute('sandbox', '')
  inner.title = 'Message'
  inner.srcdoc = event.data.html
  document.body.replaceChildren(inner)
})
