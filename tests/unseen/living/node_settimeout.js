// promise-based backoff between retries of a job
const S = parseFloat(process.env.UNSEEN_SECONDS || '15') * 1000;
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
(async () => {
  console.log('retrying with backoff');
  for (const k of [1, 2, 4]) await sleep(S * k / 7);
  console.log('alive');
})();
