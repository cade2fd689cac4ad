#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kiln lsp`, spoken to as an editor does.

usage: lsp_test.py KILN-COMMAND
"""
import json
import os
import subprocess
import sys
import tempfile

SOURCE = """import "other.tile"
// Doubles X.
kernel twice<type T = f32, int BN = {64, 32}>(in T X[N], out T Y[N])
{
    grid (n : ceildiv(N, BN));
    fragment f32 x[BN] = X[n*BN +: BN];                                  // \u00e4\U0001f600
    forall (i : BN) x[i] = doubled(x[i]);
    Y[n*BN +: BN] = x;
}
reference twice { for (int i = 0; i < N; i++) Y[i] = 2 * X[i]; }
check twice(N = {1, 100}) { }
"""
OTHER = "fn f32 doubled(f32 x) { return 2 * x; }\n"


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen([command, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def write(self, message):
        data = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def read(self):
        length = 0
        while True:
            line = self.process.stdout.readline().strip()
            if not line:
                return json.loads(self.process.stdout.read(length))
            length = int(line.split(b":")[1])

    def tell(self, method, **params):
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method, **params):
        self.number += 1
        self.write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer = self.read()
        assert answer["id"] == self.number, answer
        return answer.get("result", answer.get("error"))


# A product whose accumulator is in registers, its operands in swizzled shared memory.
PRODUCT = """kernel product<type T = bf16, int BK = 64>(in T A[M][K], in T B[K][N], out f32 C[M][N])
{
    grid (n : ceildiv(N, 128), m : ceildiv(M, 64));
    fragment f32 acc[64][128] = 0;
    pipeline (k : ceildiv(K, BK); stages = 3) {
        shared T a[64][BK] = A[m*64 +: 64][k*BK +: BK];
        shared T b[BK][128] = B[k*BK +: BK][n*128 +: 128];
        acc += a @ b;
    }
    C[m*64 +: 64][n*128 +: 128] = acc;
}
"""


def layouts(s, folder):
    uri = "file://" + os.path.join(folder, "product.tile")
    document = {"uri": uri}
    s.tell("textDocument/didOpen", textDocument={"uri": uri, "languageId": "tile", "version": 1, "text": PRODUCT})
    assert s.read()["params"]["diagnostics"] == []

    def hover(word, nth=0, text=PRODUCT):
        return s.ask("textDocument/hover", textDocument=document, position=place(text, word, nth))["contents"]["value"]

    shown = hover("acc", 1)
    assert "`acc` as `product<bf16,64>" in shown and "in registers, 64 of each thread" in shown, shown
    # The manual's figure of an accumulator: element [1][2] is value 0 of lane 5, [0][9] is value 5 of lane 0.
    assert "f32[64][128]: register 2 x d1+1 2 x d0+8 16 x d1+8; lane 4 x d1+2 8 x d0+1; warp 4 x d0+16" in shown, shown
    rows = [line.split() for line in shown.split("```text")[1].splitlines() if line.strip()[:1].isdigit()]
    assert rows[2][:4] == ["1", "t4:0", "t4:1", "t5:0"], rows
    shown = hover("a @ b")
    assert "in shared memory, 3 x 8192 bytes at 0, ring a b, swizzle 128; 16 bytes of 8 rows take 1 pass through the banks (8 row by row)" in shown, shown
    assert "144 b4" in shown, shown
    assert "shared memory" not in hover("k*BK"), "an index has no layout"
    # Found for this text alone; a text that cannot be compiled has none.
    narrow = PRODUCT.replace("BK = 64", "BK = 32")
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 2}, contentChanges=[{"text": narrow}])
    assert s.read()["params"]["diagnostics"] == []
    assert "3 x 4096 bytes at 0, ring a b, swizzle 64" in hover("a @ b", text=narrow)
    s.tell("textDocument/didSave", textDocument=document)
    assert "swizzle 64" in hover("a @ b", text=narrow)
    wrong = PRODUCT.replace("a @ b", "a @ a")
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 3}, contentChanges=[{"text": wrong}])
    assert s.read()["params"]["diagnostics"]
    assert "a shared tile" in hover("a[64]", text=wrong) and "swizzle" not in hover("a[64]", text=wrong)
    s.tell("textDocument/didClose", textDocument=document)
    assert s.read()["params"]["diagnostics"] == []


def place(text, word, nth=0):
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    line = text.count("\n", 0, at)
    before = text[text.rfind("\n", 0, at) + 1:at]
    return {"line": line, "character": len(before.encode("utf-16-le")) // 2}


def main():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "a b.tile")
    uri = "file://" + path.replace(" ", "%20")
    with open(os.path.join(folder, "other.tile"), "w", encoding="utf-8") as file:
        file.write(OTHER)
    s = Server(sys.argv[1])
    document = {"uri": uri}
    assert "hoverProvider" in s.ask("initialize", capabilities={})["capabilities"]
    s.tell("initialized")
    s.tell("textDocument/didOpen", textDocument={"uri": uri, "languageId": "tile", "version": 1, "text": SOURCE})
    said = s.read()["params"]
    assert said == {"uri": uri, "diagnostics": []}, said

    # A mistake, with its help; it goes again.
    wrong = SOURCE.replace("doubled(x[i])", "dubled(x[i])")
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 2}, contentChanges=[{"text": wrong}])
    found = s.read()["params"]["diagnostics"]
    assert len(found) == 1 and found[0]["message"] == "there is no function 'dubled'\nhelp: did you mean 'doubled'?", found
    assert found[0]["range"]["start"] == place(wrong, "dubled"), found
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 3}, contentChanges=[{"text": "kernel"}])
    assert s.read()["params"]["diagnostics"], "a syntax error"
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 4}, contentChanges=[{"text": SOURCE}])
    assert s.read()["params"]["diagnostics"] == []

    # A kernel that has no name yet is none that a specification could be of.
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 5}, contentChanges=[{"text": "kernel ()\ncheck twice"}])
    assert s.read()["params"]["diagnostics"], "a syntax error"
    names = {item["label"] for item in s.ask("textDocument/completion", textDocument=document, position={"line": 1, "character": 3})}
    assert "forall" in names, names
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 6}, contentChanges=[{"text": SOURCE}])
    assert s.read()["params"]["diagnostics"] == []

    # Where things are declared, in this file and in another.
    where = s.ask("textDocument/definition", textDocument=document, position=place(SOURCE, "BN", 1))
    assert where["uri"] == uri and where["range"]["start"] == place(SOURCE, "BN"), where
    where = s.ask("textDocument/definition", textDocument=document, position=place(SOURCE, "doubled"))
    assert where["uri"].endswith("/other.tile") and where["range"]["start"] == {"line": 0, "character": 7}, where
    assert s.ask("textDocument/definition", textDocument=document, position={"line": 99, "character": 9}) is None
    shown = s.ask("textDocument/hover", textDocument=document, position=place(SOURCE, "x[i]"))
    assert "fragment f32 x[BN]" in shown["contents"]["value"] and "a fragment" in shown["contents"]["value"], shown
    shown = s.ask("textDocument/hover", textDocument=document, position=place(SOURCE, "twice", 1))
    assert "kernel twice<type T" in shown["contents"]["value"] and "Doubles X." in shown["contents"]["value"], shown
    assert "built-in" in s.ask("textDocument/hover", textDocument=document, position=place(SOURCE, "ceildiv"))["contents"]["value"]
    assert "32 bits" in s.ask("textDocument/hover", textDocument=document, position=place(SOURCE, "f32"))["contents"]["value"]

    names = {item["label"] for item in s.ask("textDocument/completion", textDocument=document, position=place(SOURCE, "Y[n*BN"))}
    assert {"X", "BN", "doubled", "forall", "exp2", "bf16", "n"} <= names, names
    assert [x["name"] + ":" + x["detail"] for x in s.ask("textDocument/documentSymbol", textDocument=document)] == [
        "twice:kernel", "twice:reference", "twice:check"]

    # A parameter is renamed in the kernel and its specification, nothing else; columns count UTF-16 units.
    edits = s.ask("textDocument/rename", textDocument=document, position=place(SOURCE, "X[N]"), newName="IN")["changes"][uri]
    assert len(edits) == 3 and all(e["newText"] == "IN" for e in edits), edits
    edits = s.ask("textDocument/rename", textDocument=document, position=place(SOURCE, "doubled"), newName="two")["changes"]
    assert sorted(len(e) for e in edits.values()) == [1, 1], edits
    assert "no name" in s.ask("textDocument/rename", textDocument=document, position=place(SOURCE, "X[N]"), newName="3")["message"]
    s.tell("textDocument/didChange", textDocument={"uri": uri, "version": 7},
           contentChanges=[{"text": SOURCE.replace("    Y[n*BN", "Y[n*BN")}])
    s.read()
    assert s.ask("textDocument/formatting", textDocument=document, options={})[0]["newText"] == SOURCE

    layouts(s, folder)
    assert s.ask("no/method")["code"] == -32601
    s.process.stdin.write(b"Content-Length: 3\r\n\r\n{]}")
    s.process.stdin.flush()
    assert s.read()["error"]["code"] == -32700
    s.tell("textDocument/didClose", textDocument=document)
    assert s.read()["params"]["diagnostics"] == []
    assert s.ask("shutdown") is None
    s.tell("exit")
    assert s.process.wait(timeout=20) == 0
    print("lsp: ok")


if __name__ == "__main__":
    main()
