// Scheduler and agent in one process talk HTTP; the handler for /lease forgets res.end(). Heartbeat file goes on.
const http = require('http'), fs = require('fs'), path = require('path'), os = require('os');
const tmp = process.env.UNSEEN_TMP || os.tmpdir();
const srv = http.createServer((req, res) => {
  if (req.url === '/ping') return res.end('pong');
  if (req.url === '/lease') { res.writeHead(200); res.write('{"lease":'); return; }
});
srv.timeout = 0; srv.requestTimeout = 0; srv.keepAliveTimeout = 0;
setInterval(() => fs.writeFileSync(path.join(tmp, 'agent.hb'),
  Date.now() + ' ' + fs.readFileSync('/proc/loadavg', 'utf8')), 2000);
function get(p) {
  return new Promise((ok, bad) => http.get({ port: srv.address().port, host: '127.0.0.1', path: p }, (r) => {
    let s = ''; r.on('data', (d) => s += d); r.on('end', () => ok(s));
  }).on('error', bad));
}
srv.listen(0, '127.0.0.1', async () => {
  console.log(await get('/ping'));
  console.log('frozen soon');
  console.log(await get('/lease'));
  process.exit(0);
});
