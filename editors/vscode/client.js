// SPDX-License-Identifier: MIT
// client.js - a language server as a child process: requests, notifications, and their framing (LSP 3.17 over standard streams).
'use strict';
const { spawn } = require('child_process');

// The whole messages of a stream of "Content-Length: N\r\n\r\n" and N bytes; given(message) for each.
function messagesOf(given) {
    let bytes = Buffer.alloc(0);
    return (piece) => {
        bytes = Buffer.concat([bytes, piece]);
        for (;;) {
            const end = bytes.indexOf('\r\n\r\n');
            const length = end < 0 ? null : /Content-Length: *(\d+)/i.exec(bytes.toString('latin1', 0, end));
            if (!length || bytes.length < end + 4 + Number(length[1])) return;
            const body = bytes.subarray(end + 4, end + 4 + Number(length[1]));
            bytes = bytes.subarray(end + 4 + Number(length[1]));
            given(JSON.parse(body.toString('utf8')));
        }
    };
}

class Client {
    // notified(method, params) gets what the server says unasked; ended(message) is called once when it is gone, with the reason.
    constructor(command, args, notified, ended) {
        this.asked = new Map();
        this.next = 1;
        this.stopped = false;
        this.process = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
        const gone = (reason) => {
            if (!this.process) return;
            this.process = null;
            for (const { reject } of this.asked.values()) reject(new Error(reason));
            this.asked.clear();
            if (!this.stopped) ended(reason);
        };
        this.process.on('error', (error) => gone(error.message));
        this.process.on('exit', (code) => gone(`'${command} ${args.join(' ')}' ended with ${code}`));
        this.process.stdin.on('error', () => {});            // 'exit' tells
        this.process.stdout.on('data', messagesOf((message) => {
            const one = this.asked.get(message.id);
            if (!one) return message.method ? notified(message.method, message.params) : undefined;
            this.asked.delete(message.id);
            if (message.error) one.reject(new Error(message.error.message));
            else one.resolve(message.result);
        }));
    }

    send(message) {
        if (!this.process) return;
        const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }), 'utf8');
        this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
        this.process.stdin.write(body);
    }

    notify(method, params) { this.send({ method, params }); }

    // The result, null at least; fails if the server refuses or is gone.
    request(method, params) {
        if (!this.process) return Promise.reject(new Error('the server is not running'));
        const id = this.next++;
        return new Promise((resolve, reject) => {
            this.asked.set(id, { resolve, reject });
            this.send({ id, method, params });
        });
    }

    async start() {
        const answer = await this.request('initialize', { processId: process.pid, rootUri: null, capabilities: {} });
        this.notify('initialized', {});
        return answer;
    }

    async stop() {
        this.stopped = true;
        const child = this.process;
        await this.request('shutdown', null).catch(() => {});
        this.notify('exit', null);
        if (child) setTimeout(() => child.kill(), 1000).unref();
    }
}

module.exports = { Client, messagesOf };
