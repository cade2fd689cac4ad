// SPDX-License-Identifier: MIT
// client_test.js - VS Code's client against `kiln lsp`, and the extension against a `vscode` of stand-ins.
// usage: node client_test.js KILN-COMMAND EXTENSION-FOLDER
'use strict';
const assert = require('assert');
const Module = require('module');
const path = require('path');

const [kiln, folder] = process.argv.slice(2).map((name) => path.resolve(name));
const TEXT = 'kernel scale(in f32 X[N], out f32 Y[N])\n{\n  grid (n : N);\n    Y[n] = X[m];\n}\n';

// What the extension uses of the editor: plain values, and providers by the name of their registration.
const providers = {};
const told = [];
const document = {
    languageId: 'tile', version: 1, uri: { scheme: 'file', toString: () => 'file:///tmp/scale.tile' }, getText: () => TEXT,
};
class Plain { constructor(...args) { this.args = args; } }
const shown = new Map();
let published;
const vscode = {
    Range: Plain, Hover: Plain, MarkdownString: Plain, Location: Plain, CompletionItem: Plain, DocumentSymbol: Plain,
    Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
    WorkspaceEdit: class { constructor() { this.edits = []; } replace(...edit) { this.edits.push(edit); } },
    TextEdit: { replace: (range, text) => ({ range, text }) },
    Uri: { parse: (uri) => uri },
    window: { showErrorMessage: (message) => told.push(message) },
    commands: { registerCommand: () => null },
    workspace: {
        textDocuments: [document],
        getConfiguration: () => ({ get: (name) => (name === 'command' ? kiln : []) }),
        onDidOpenTextDocument: () => null, onDidChangeTextDocument: () => null, onDidCloseTextDocument: () => null,
    },
    languages: new Proxy({}, {
        get: (_, name) => (name === 'createDiagnosticCollection'
            ? () => ({ set: (uri, list) => { shown.set(uri, list); if (published) published(); }, clear: () => shown.clear() })
            : (selector, provider) => { providers[name] = provider; }),
    }),
};
const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));

async function main() {
    const { messagesOf } = require(path.join(folder, 'client.js'));
    const got = [];
    const feed = messagesOf((message) => got.push(message));
    const bytes = Buffer.from('Content-Length: 9\r\n\r\n{"a":"ä"}Content-Length: 7\r\n\r\n{"b":1}'.replace('9', '10'), 'utf8');
    for (const byte of bytes) feed(Buffer.from([byte]));     // cut anywhere
    assert.deepStrictEqual(got, [{ a: 'ä' }, { b: 1 }]);

    const extension = require(path.join(folder, 'extension.js'));
    const first = new Promise((resolve) => { published = resolve; });
    await extension.activate({ subscriptions: [] });
    await first;
    const [diagnostic] = shown.get('file:///tmp/scale.tile');
    assert.match(diagnostic.message, /'m'/);
    assert.strictEqual(diagnostic.severity, 0);
    assert.deepStrictEqual(diagnostic.range.args.slice(0, 2), [3, 13]);
    const at = { line: 3, character: 11 };
    const hover = await providers.registerHoverProvider.provideHover(document, at);
    assert.match(hover.args[0].args[0], /f32 X\[N\]/);
    const items = await providers.registerCompletionItemProvider.provideCompletionItems(document, at);
    for (const word of ['X', 'fragment', 'grid', 'bf16', 'ceildiv', 'atomic_add', 'LOG2E', 'warps'])
        assert(items.some((item) => item.args[0] === word), `completion offers ${word}`);
    const symbols = await providers.registerDocumentSymbolProvider.provideDocumentSymbols(document);
    assert.strictEqual(symbols[0].args[0], 'scale');
    const edits = await providers.registerDocumentFormattingEditProvider.provideDocumentFormattingEdits(document, {});
    assert.match(edits[0].text, /^ {4}grid/m);
    const renamed = await providers.registerRenameProvider.provideRenameEdits(document, at, 'XS');
    assert.strictEqual(renamed.edits.length, 2);
    const places = await providers.registerDefinitionProvider.provideDefinition(document, at);
    assert.strictEqual(places[0].args[1].args[0], 0);
    assert.deepStrictEqual(told, []);
    await extension.deactivate();
    assert.strictEqual(await providers.registerHoverProvider.provideHover(document, at), null);
}

main().catch((error) => { console.error(error); process.exit(1); });
