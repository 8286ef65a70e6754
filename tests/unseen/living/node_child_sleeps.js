// node driver awaits a child process that sleeps
const { spawn } = require('child_process');
console.log('export started');
const c = spawn('sleep', [process.env.UNSEEN_SECONDS || '15'], { stdio: ['ignore', 'pipe', 'pipe'] });
c.on('close', (code) => { console.log(code === 0 ? 'alive' : 'odd'); });
