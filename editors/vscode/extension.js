// SPDX-License-Identifier: MIT
// extension.js - VS Code's side of `kiln lsp`: starts it, gives it the texts of open .tile files, asks it for what the editor shows.
'use strict';
const vscode = require('vscode');
const { Client } = require('./client');

const TILE = { language: 'tile' };
let client = null;
let shown = null;                                            // diagnostics

const toRange = (r) => new vscode.Range(r.start.line, r.start.character, r.end.line, r.end.character);
const toPosition = (document, position) => ({
    textDocument: { uri: document.uri.toString() },
    position: { line: position.line, character: position.character },
});

// ---- documents

const isOurs = (document) => document.languageId === 'tile' && document.uri.scheme === 'file';

function opened(document) {
    if (client && isOurs(document))
        client.notify('textDocument/didOpen', {
            textDocument: { uri: document.uri.toString(), languageId: 'tile', version: document.version, text: document.getText() },
        });
}

function changed(event) {
    if (client && isOurs(event.document))
        client.notify('textDocument/didChange', {
            textDocument: { uri: event.document.uri.toString(), version: event.document.version },
            contentChanges: [{ text: event.document.getText() }],
        });
}

function closed(document) {
    if (client && isOurs(document)) client.notify('textDocument/didClose', { textDocument: { uri: document.uri.toString() } });
}

function published(method, params) {
    if (method !== 'textDocument/publishDiagnostics') return;
    shown.set(vscode.Uri.parse(params.uri), params.diagnostics.map((d) => {
        const one = new vscode.Diagnostic(toRange(d.range), d.message, (d.severity || 1) - 1);
        one.source = d.source;
        return one;
    }));
}

// ---- what the editor asks. A server that is gone has no answers.

async function ask(method, params) {
    return client ? client.request(method, params).catch(() => null) : null;
}

const hover = {
    async provideHover(document, position) {
        const answer = await ask('textDocument/hover', toPosition(document, position));
        return answer && new vscode.Hover(new vscode.MarkdownString(answer.contents.value), answer.range && toRange(answer.range));
    },
};

const definition = {
    async provideDefinition(document, position) {
        const answer = await ask('textDocument/definition', toPosition(document, position));
        return answer && [].concat(answer).map((place) => new vscode.Location(vscode.Uri.parse(place.uri), toRange(place.range)));
    },
};

const completion = {
    async provideCompletionItems(document, position) {
        const answer = await ask('textDocument/completion', toPosition(document, position));
        return (answer || []).map((item) => {
            const one = new vscode.CompletionItem(item.label, item.kind - 1);      // LSP counts kinds from 1
            one.detail = item.detail;
            return one;
        });
    },
};

const rename = {
    async provideRenameEdits(document, position, newName) {
        const answer = await client.request('textDocument/rename', { ...toPosition(document, position), newName });
        const edit = new vscode.WorkspaceEdit();
        for (const [uri, edits] of Object.entries((answer && answer.changes) || {}))
            for (const e of edits) edit.replace(vscode.Uri.parse(uri), toRange(e.range), e.newText);
        return edit;
    },
};

const symbols = {
    async provideDocumentSymbols(document) {
        const answer = await ask('textDocument/documentSymbol', { textDocument: { uri: document.uri.toString() } });
        return (answer || []).map((s) => new vscode.DocumentSymbol(s.name, s.detail || '', s.kind - 1, toRange(s.range), toRange(s.selectionRange)));
    },
};

const format = {
    async provideDocumentFormattingEdits(document, options) {
        const answer = await ask('textDocument/formatting', { textDocument: { uri: document.uri.toString() }, options });
        return (answer || []).map((e) => vscode.TextEdit.replace(toRange(e.range), e.newText));
    },
};

// ---- starting and ending

async function start() {
    const settings = vscode.workspace.getConfiguration('kiln');
    const command = settings.get('command');
    const args = ['lsp', ...settings.get('importFolders').flatMap((folder) => ['-I', folder])];
    const one = new Client(command, args, published, (reason) => {
        client = null;
        shown.clear();
        vscode.window.showErrorMessage(`Kiln: ${reason}. The setting kiln.command says which command is started.`);
    });
    try {
        await one.start();
    } catch (error) {
        return;                                              // told above
    }
    client = one;
    vscode.workspace.textDocuments.forEach(opened);
}

async function stop() {
    const one = client;
    client = null;
    if (one) await one.stop();
}

async function activate(context) {
    shown = vscode.languages.createDiagnosticCollection('kiln');
    const { languages, workspace, commands } = vscode;
    context.subscriptions.push(
        shown,
        workspace.onDidOpenTextDocument(opened),
        workspace.onDidChangeTextDocument(changed),
        workspace.onDidCloseTextDocument(closed),
        languages.registerHoverProvider(TILE, hover),
        languages.registerDefinitionProvider(TILE, definition),
        languages.registerCompletionItemProvider(TILE, completion),
        languages.registerRenameProvider(TILE, rename),
        languages.registerDocumentSymbolProvider(TILE, symbols),
        languages.registerDocumentFormattingEditProvider(TILE, format),
        commands.registerCommand('kiln.restart', async () => { await stop(); await start(); }),
    );
    await start();
}

module.exports = { activate, deactivate: stop };
