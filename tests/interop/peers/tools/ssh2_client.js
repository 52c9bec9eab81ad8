// npm's ssh2 as a client: three kinds of keys, commands, a shell, files, forwarded connections both ways.
const fs = require('fs');
const net = require('net');
const assert = require('assert');
const { Client } = require('ssh2');

const folder = process.env.T_DIR;
const port = Number(process.env.T_PORT);
const data = fs.readFileSync(`${folder}/data`);

const call = (object, name, ...values) =>
  new Promise((resolve, reject) =>
    object[name](...values, (error, result) => (error ? reject(error) : resolve(result))));

function login(key, more = {}) {
  return new Promise((resolve, reject) => {
    const client = new Client();
    client.on('ready', () => resolve(client)).on('error', reject).connect({
      host: '127.0.0.1', port, username: process.env.T_USER, privateKey: fs.readFileSync(process.env[key]), ...more,
    });
  });
}

const ended = (stream) =>
  new Promise((resolve) => {
    const out = [];
    const err = [];
    let status;
    stream.on('data', (part) => out.push(part)).stderr.on('data', (part) => err.push(part));
    stream.on('exit', (code, signal) => { status = code ?? signal; });
    stream.on('close', () => resolve({ out: Buffer.concat(out), err: Buffer.concat(err), status }));
  });

// Listens in the callback: the command's end may come in the same packet as the answer to the request.
const execute = (client, command, input = '') =>
  new Promise((resolve, reject) =>
    client.exec(command, (error, stream) => {
      if (error) return reject(error);
      ended(stream).then(resolve);
      stream.end(input);
    }));

async function main() {
  for (const key of ['T_KEY', 'T_RSA_KEY', 'T_ECDSA_KEY']) {
    const client = await login(key);
    const { out, err, status } = await execute(client, 'cat; echo to-error >&2; exit 7', data);
    assert(out.equals(data));
    assert.equal(err.toString(), 'to-error\n');
    assert.equal(status, 7);
    client.end();
  }
  const client = await login('T_KEY', { compress: true, keepaliveInterval: 200 });
  assert.equal((await execute(client, 'kill -TERM $$')).status, 'SIGTERM');
  const shell = await call(client, 'shell', { term: 'vt100', rows: 30, cols: 90 });
  const said = ended(shell);
  shell.write('stty size; echo a$((6*7))b $TERM; exit 3\n');
  const { out, status } = await said;
  assert(/30 90/.test(out) && /a42b vt100/.test(out), String(out));
  assert.equal(status, 3);

  const sftp = await call(client, 'sftp');
  await call(sftp, 'fastPut', `${folder}/data`, `${folder}/by-ssh2`);
  await call(sftp, 'fastGet', `${folder}/by-ssh2`, `${folder}/back`);
  assert(fs.readFileSync(`${folder}/back`).equals(data));
  const names = (await call(sftp, 'readdir', `${folder}/tree`)).map((entry) => entry.filename).sort();
  assert.deepEqual(names.filter((name) => !name.startsWith('.')), fs.readdirSync(`${folder}/tree`).sort());
  await call(sftp, 'rename', `${folder}/by-ssh2`, `${folder}/renamed`);
  await call(sftp, 'ext_openssh_rename', `${folder}/renamed`, `${folder}/back`);
  await call(sftp, 'ext_openssh_hardlink', `${folder}/back`, `${folder}/hard`);
  await call(sftp, 'chmod', `${folder}/back`, 0o600);
  assert.equal((await call(sftp, 'stat', `${folder}/back`)).mode & 0o777, 0o600);
  await call(sftp, 'symlink', `${folder}/back`, `${folder}/link`);
  assert.equal(await call(sftp, 'readlink', `${folder}/link`), `${folder}/back`);
  await assert.rejects(call(sftp, 'stat', `${folder}/no-such`), { code: 2 });

  const greeter = net.createServer((socket) => socket.end('hello\n'));
  await new Promise((resolve) => greeter.listen(0, '127.0.0.1', resolve));
  const there = await call(client, 'forwardOut', '127.0.0.1', 1, '127.0.0.1', greeter.address().port);
  assert.equal(String(await new Promise((resolve) => there.once('data', resolve))), 'hello\n');
  const bound = await call(client, 'forwardIn', '127.0.0.1', 0);
  client.on('tcp connection', (_, accept) => accept().end('back\n'));
  const socket = net.connect(bound, '127.0.0.1');
  assert.equal(String(await new Promise((resolve) => socket.once('data', resolve))), 'back\n');
  await call(client, 'unforwardIn', '127.0.0.1', bound);
  await new Promise((resolve) => setTimeout(resolve, 700));
  client.end();
  greeter.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
