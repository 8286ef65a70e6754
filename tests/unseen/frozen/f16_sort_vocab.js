// Build script: sorts a vocabulary with the system's sort and counts the lines.
const { spawn } = require('child_process');

function sorted(words) {
  return new Promise((resolve, reject) => {
    const sort = spawn('sort', ['-u'], { stdio: ['pipe', 'pipe', 'inherit'] });
    let out = '';
    sort.stdout.on('data', (d) => { out += d; });
    sort.on('error', reject);
    sort.on('close', () => resolve(out.trim().split('\n')));
    for (const w of words) sort.stdin.write(w + '\n');
  });
}

async function main() {
  const words = [];
  for (let i = 0; i < 500; i++) words.push('token' + ((i * 37) % 101));
  const vocab = await sorted(words);
  console.log('vocabulary', vocab.length);
}

main();
