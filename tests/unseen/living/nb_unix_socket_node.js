// node client on a unix socket; the service outside answers late, no client timeout
const net = require('net'), fs = require('fs'), p = process.env.UNSEEN_TMP + '/svc.sock';
function go() {
  if (!fs.existsSync(p)) return setTimeout(go, 100);
  const c = net.connect(p, () => { console.log('asked'); c.write('JOB?\n'); });
  c.on('data', (d) => { console.log(String(d) === 'WEIGHTS\n' ? 'alive' : 'odd'); c.destroy(); });
}
go();
