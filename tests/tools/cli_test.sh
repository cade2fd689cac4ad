#!/bin/sh
# SPDX-License-Identifier: MIT
# cli_test.sh - the `kiln` command: what it prints, where, and how it ends.
# usage: cli_test.sh KILN-COMMAND
set -u
kiln=$1 source=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$kiln" ] || { echo "there is no command at $kiln"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export KILN_CACHE="$folder/cache" NO_COLOR=1
unset KILN_TEST_DEVICE KILN_ISA KILN_PATH
failed=0

# expect STATUS TEXT COMMAND...: it ends with STATUS and says TEXT on either output.
expect() {
    status=$1 text=$2
    shift 2
    "$@" >out 2>err </dev/null
    got=$?
    if [ $got != "$status" ] || { [ -n "$text" ] && ! cat out err | grep -qF -- "$text"; }; then
        echo "FAIL: $* ended with $got, expected $status and '$text'; it said:"
        head -20 out err
        failed=$((failed + 1))
    fi
}

cat >good.tile <<'END'
// Doubles.
kernel twice<type T = f32, int BN = 64>(in T X[N], out T Y[N])
{
    grid (n : ceildiv(N, BN));
    fragment f32 x[BN] = X[n*BN +: BN];
    forall (i : BN) x[i] *= 2;
    Y[n*BN +: BN] = x;
}
reference twice { for (int i = 0; i < N; i++) Y[i] = 2 * X[i]; }
check twice<T = {f32, bf16}>(N = {0, 1, 64, 1000}) { tolerance: exact; }
END
{ sed '$d' good.tile; cat <<'END'; } >listed.tile
check twice<T = {f32, bf16, f16}, BN = {32, 64}>(N = {1, 64, 100, 1000}) { tolerance: exact; }
check twice<T = f32, BN = 32>(N = 1) { input X = 3; tolerance: exact; }
END
sed 's/x\[i\] \*= 2/x[i] *= i == 5 ? 3 : 2/' good.tile >wrong.tile
sed 's/Y\[n\*BN/Z[n*BN/' good.tile >broken.tile
sed '/^reference/,$d' good.tile >unchecked.tile
cat >odd.tile <<'END'
kernel   twice ( in f32 X [N] , out f32 Y[N] ) { // why
grid( n:N ) ; Y [ n ]=X[n] ; }
END
cat >lazy.tile <<'END'
kernel lazy(in i32 X[N], out f32 Y[N]) { grid (n : N); Y[n] = 0; }
reference lazy { for (int i = 0; i < N; i++) Y[i] = 0; }
check lazy(N = 4) { }
END
cat >stopping.tile <<'END'
kernel stop(inout i32 X[N], int v) {
    grid ();
    shared i32 t[4] = X[0 +: 4];
    print("100% of {}:", v, 2.5);
    assume(v < 8);
    assert(v < 6, "v is small");
    X[0] = t[v];
}
reference stop { X[0] = X[v]; }
check stop(N = 4, v = {3, 5, 7, 9}) { input X = 1; }
END
cat >unwritten.tile <<'END'
kernel half(in f32 X[N], out f32 Y[N]) { grid (n : N / 2); Y[n] = X[n]; }
reference half { for (int i = 0; i < N; i++) Y[i] = X[i]; }
check half(N = 4) { }
END

cat >outer.tile <<'END'
kernel outer(in f32 X[M], in f32 W[N], out f32 Y[M][N], f32 scale)
{
    grid (m : M, n : ceildiv(N, 64));
    fragment f32 w[64] = W[n*64 +: 64];
    forall (i : 64) w[i] *= scale * X[m];
    Y[m][n*64 +: 64] = w;
}
END

# the command itself
expect 2 'usage: kiln COMMAND' "$kiln"
expect 0 'usage: kiln COMMAND' "$kiln" --help
for word in --version -V version; do expect 0 'kiln ' "$kiln" $word; done
for word in -h help; do expect 0 'usage: kiln COMMAND' "$kiln" $word; done
expect 2 "kiln: 'brew' is not a command" "$kiln" brew
expect 2 "'brew' is not a command" "$kiln" help brew
expect 2 "did you mean 'test'?" "$kiln" tset
commands=$("$kiln" --help | sed -nE 's/^  ([a-z]+) .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 9 ] || { echo "FAIL: kiln --help lists no commands"; failed=$((failed + 1)); }
for command in $commands; do
    for how in "help $command" "$command --help" "$command -h"; do
        # shellcheck disable=SC2086
        expect 0 "usage: kiln $command" "$kiln" $how
        grep -q '^examples:' out || { echo "FAIL: kiln $how shows no examples"; failed=$((failed + 1)); }
    done
    expect 2 "kiln: unknown option '--nonsense'; see 'kiln $command --help'" "$kiln" "$command" --nonsense
    # Whatever its options take: nothing given, and numbers that are none.
    for option in $("$kiln" "$command" --help | sed -nE 's/^  (--[a-z-]+)=.*/\1/p'); do
        expect 2 "kiln: $option needs a value" "$kiln" "$command" "$option"
        expect 2 "kiln: $option needs a value" "$kiln" "$command" "$option="
    done
    for option in $("$kiln" "$command" --help | sed -nE 's/^  (--[a-z-]+)=(N|DAYS) .*/\1/p'); do
        expect 2 "kiln: $option takes a whole number" "$kiln" "$command" "$option=3x"
        expect 2 "kiln: $option takes a number from 0" "$kiln" "$command" "$option=-1"
        expect 2 "kiln: $option takes a number from 0" "$kiln" "$command" "$option=4294967386"
    done
    for option in $("$kiln" "$command" --help | sed -nE 's/^  (--[a-z-]+)=S .*/\1/p'); do
        for value in 3x -1 . 1.2.3 1e3 ' 1' nan; do
            expect 2 "kiln: $option takes seconds, as 2 or 0.2, not '$value'" "$kiln" "$command" "$option=$value"
        done
        expect 2 "kiln: $option takes seconds from 0" "$kiln" "$command" "$option=4294967386.5"
    done
    for option in $("$kiln" "$command" --help | sed -nE 's/^  (--[a-z-]+) .*/\1/p'); do
        expect 2 "kiln: $option takes no value" "$kiln" "$command" "$option=yes"
    done
done
expect 2 "did you mean '--check'?" "$kiln" test --chekc
if [ -w /dev/full ]; then
    for words in --help "run --help" "fmt --print good.tile" "build good.tile"; do
        # shellcheck disable=SC2086
        expect 1 'kiln: cannot write the output: No space left' sh -c 'exec >/dev/full; exec "$@"' - "$kiln" $words
    done
    ln -s /dev/full full.html # what could not be written whole is taken away, but nothing else than a file is
    expect 1 'kiln: cannot write full.html: No space left' "$kiln" explain --html=full.html good.tile
    expect 0 '/dev/full' readlink full.html
fi
expect 1 'kiln: cannot write the output' sh -c 'exec >&-; exec "$@"' - "$kiln" --help

# a file that is none
for command in run test build dump explain fmt; do
    for file in missing.tile gone/missing.tile; do
        expect "$([ $command = test ] || [ $command = fmt ] && echo 2 || echo 1)" 'No such file' "$kiln" $command $file
        grep -q '^kiln: ' err || { echo "FAIL: kiln $command $file says no kiln:"; failed=$((failed + 1)); }
    done
    expect "$([ $command = test ] || [ $command = fmt ] && echo 2 || echo 1)" "kiln: did you mean 'good.tile'?" "$kiln" $command goood.tile
done
for command in run build dump explain; do
    expect 1 "kiln: cannot read '.': it is a folder" "$kiln" $command .
    expect 2 'kiln: which file?' "$kiln" $command N=3
    expect 2 "did you mean 'twice'?" "$kiln" $command good.tile twise
    expect 1 "kiln: 'twice' has nothing called 'BNN' to bind: it has T, BN, N; did you mean 'BN'?" "$kiln" $command good.tile BNN=3
done
expect 1 "nor unaligned; did you mean 'f16'?" "$kiln" build good.tile T=half
expect 1 "kiln: bindings: expected NAME=VALUE" "$kiln" build good.tile N=
expect 2 "did you mean 'simplify'?" "$kiln" dump --stage=simplfy good.tile
expect 2 'run: --arch needs a CUDA device' "$kiln" run --arch=90 good.tile
expect 2 '--arch is for CUDA, and cpu is none' "$kiln" run --device=cpu --arch=90 good.tile
expect 2 '--isa is for the CPU' "$kiln" build --arch=90 --isa=avx2 good.tile
expect 1 'kiln: no device is called' "$kiln" run --device=abacus good.tile
expect 2 'kiln: --older=3 goes with --clean' "$kiln" cache --older=3
expect 2 'kiln: cannot write gone/table: No such file' "$kiln" bench --save=gone/table gemm

# test
expect 0 '8 passed, 0 failed, 0 skipped' "$kiln" test good.tile
expect 0 'twice<bf16>(N=64)' "$kiln" test --verbose --filter='bf16' good.tile
expect 1 '4 passed, 4 failed, 0 skipped' "$kiln" test wrong.tile
expect 1 'first: Y[5]' "$kiln" test wrong.tile
expect 1 'broken.tile:7' "$kiln" test broken.tile
expect 1 "nothing makes the input 'X'" "$kiln" test lazy.tile
expect 1 'Y[2] is nan' "$kiln" test unwritten.tile
expect 2 'no case matches' "$kiln" test --filter=nothing good.tile
expect 2 'No such file' "$kiln" test missing.tile
expect 2 'which files' "$kiln" test
expect 1 'no device is called' "$kiln" test --device=abacus good.tile
expect 2 "instruction set 'sse9' is unknown: expected " sh -c '"$0" test --isa=sse9 good.tile; exit 2' "$kiln"
expect 0 '8 passed' "$kiln" test --isa=portable good.tile
expect 2 '--arch needs --compile-only, or a CUDA device' "$kiln" test --arch=90 good.tile
expect 2 "no row's name contains 'nonsense'" "$kiln" bench --list nonsense
expect 2 "no row's name contains 'nonsense'" "$kiln" bench nonsense
[ -s out ] && { echo "FAIL: bench printed a table of nothing"; failed=$((failed + 1)); }
expect 0 '8 passed' "$kiln" test --check .//good.tile
expect 0 '"passed": 8, "failed": 0' "$kiln" test --json good.tile
expect 0 '"outcome": "passed", "correct": true' "$kiln" test --json good.tile
expect 1 '"outcome": "failed", "correct": false' "$kiln" test --json wrong.tile
expect 0 '"outcome": "passed", "correct": null' "$kiln" test --json --compile-only good.tile
expect 0 '"passed": 5' "$kiln" test --json --quick good.tile
expect 0 '25 passed' "$kiln" test listed.tile
for value in '7 passed' 'twice<f32' 'twice<bf16' 'twice<f16' 'BN=64' '(N=64)' '(N=100)' '(N=1000)'; do
    expect 0 "$value" "$kiln" test --verbose --quick listed.tile
done
for words in "test good.tile" "test listed.tile"; do
    # shellcheck disable=SC2086
    expect 0 "'kiln test --check' runs the same" "$kiln" $words
    [ "$(grep -c "'kiln test --check'" out)" = 1 ] || { echo "FAIL: kiln $words does not say once what --check is"; failed=$((failed + 1)); }
done
for words in "test --check good.tile" "test --json good.tile" "test wrong.tile"; do
    # shellcheck disable=SC2086
    "$kiln" $words >out 2>err
    grep -q "'kiln test --check'" out && { echo "FAIL: kiln $words recommends --check"; failed=$((failed + 1)); }
done

# Ctrl-C: what was done so far, and status 130. A reference that takes long comes after cases that do not.
{ sed '$d' good.tile; cat <<'END'; } >long.tile
check twice(N = {1, 2, 3}) { tolerance: exact; }
kernel slow(out f32 Y[N]) { grid (n : N); Y[n] = 0; }
reference slow { int i = 0; while (i < 1000000000000) { i += Y[0] > 1 ? 2 : 1; } Y[0] = i * 0; }
check slow(N = 1) { }
END
expect 130 ' passed, 0 failed, 0 skipped' timeout --preserve-status -s INT 2 "$kiln" test long.tile
grep -q '^interrupted; until then ' out || { echo 'FAIL: an interrupted test says nothing'; failed=$((failed + 1)); }
expect 130 '"failed": 0, "skipped": 0, "interrupted": true}' timeout --preserve-status -s INT 1 "$kiln" test --json long.tile
expect 130 'interrupted after 0 shapes of nn' timeout --preserve-status -s INT 1 "$kiln" bench --sweep=nn --save=cut.json --beside='sleep 9'
expect 0 '"rows": ' cat cut.json
expect 0 '], "interrupted": true}' cat cut.json
expect 130 'interrupted after 0 of 1 rows' timeout --preserve-status -s INT 1 "$kiln" bench --seconds=1000 'backward bf16'
mkdir -p sub/deep && cp good.tile sub/deep/
expect 0 '8 passed' "$kiln" test sub
expect 2 'no .tile files' "$kiln" test cache

# where a kernel printed and stopped, on both targets
expect 1 'stopping.tile:4:5: 100% of 3: 2.5' "$kiln" test --check stopping.tile
expect 1 "stop: stopping.tile:7:12: a subscript of 't' is outside its extent" "$kiln" test --check stopping.tile
expect 1 'stop: stopping.tile:6:5: v is small' "$kiln" test stopping.tile
expect 1 'stop: stopping.tile:5:5: this assumption does not hold' "$kiln" test --check stopping.tile
expect 0 'printf("stopping.tile:4:5: 100%% of %lld: %.9g\n"' "$kiln" dump --arch=90 --stage=source stopping.tile
expect 0 '"stop: stopping.tile:6:5: v is small")' "$kiln" dump --arch=90 --stage=source stopping.tile

# text that a source or its name brings into emitted code stays in its literal, on both targets
injected=$(printf 'a\r#error in the name\r.tile')
cat >"$injected" <<'EOF'
kernel say(in f32 X[1], out f32 Y[1]) {
    grid ();
    print("b\r#error in a print\r\n#error again {} ??/", 7);
    Y[0] = 4;
    assert(X[0] <= 4, "c\r#error in a message\r\"); #error");
}
reference say { Y[0] = 4; }
check say() { }
EOF
expect 0 '1 passed, 0 failed' "$kiln" test "$injected"
expect 0 '#error in a print' "$kiln" test "$injected"
for form in --arch=90 --arch=80 --isa=portable; do
    expect 0 'no line of its own' sh -c '"$0" dump $1 --stage=source "$2" | tr "\r" "\n" >emitted; grep "say.*__\|say_" emitted >/dev/null &&
        ! grep "^ *#error" emitted && echo no line of its own' "$kiln" $form "$injected"
done

# run
expect 0 'correct' "$kiln" run --seconds=0.02 good.tile twice N=500
cat >rows.tile <<'END'
kernel rows(in f32 X[M][N], out f32 Y[M][N]) { grid (i : M); forall (j : N) Y[i][j] = 2*X[i][j]; }
reference rows { forall (i : M, j : N) Y[i][j] = 2*X[i][j]; }
check rows(M = 3, N = 5) {}
END
expect 0 'rows<X=strided>(M=3, N=5)' "$kiln" run --seconds=0 rows.tile rows X=strided
expect 0 '"median_seconds"' "$kiln" run --json --seconds=0 good.tile
expect 0 '"correct": true, "compared_with": "reference", "runs"' "$kiln" run --json --seconds=0 good.tile
expect 1 '"correct": false, "compared_with": "reference", "problem": "Y: 16 of 1000' "$kiln" run --json --seconds=0 wrong.tile
expect 1 '"correct": false' "$kiln" run --json --seconds=0 wrong.tile twice T=bf16 N=700
expect 0 '"correct": null, "not_checked": "it has neither a reference nor a verify block", "runs"' \
    "$kiln" run --json --seconds=0 unchecked.tile N=10
expect 0 '"correct": null, "not_checked": "--no-check was given"' "$kiln" run --json --seconds=0 --no-check wrong.tile
expect 0 '"correct": true, "compared_with": "reference", "compared_at": "N=1000", "runs"' \
    "$kiln" run --json --seconds=0 good.tile twice N=60000000
# The tolerance and the inputs of a check are for its types.
cat >summing.tile <<'END'
kernel sum<type T = f32, type TC = T>(in T A[M][K], in T B[N][K], out TC C[M][N])
{
    grid ();
    shared T a[16][32] = A[0 +: 16][0 +: 32], b[16][32] = B[0 +: 16][0 +: 32];
    fragment f32 c[16][16] = a @ transpose(b);
    C[0 +: 16][0 +: 16] = c;
}
reference sum {
    for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) {
        f64 c = 0;
        for (int k = 0; k < K; k++) c += A[i][k] * B[j][k];
        C[i][j] = c;
    }
}
check sum<T = f16, TC = f32>(M = 16, N = 16, K = 32) { input A, B = 3; tolerance: exact; }
check sum<T = bf16>(M = 3, N = 5, K = 7) { tolerance: relative 0.02; }
END
expect 0 'tolerance: that of sum<f16,f32>(M=16, N=16, K=32)' "$kiln" run --seconds=0 summing.tile T=f16 TC=f32
expect 0 'tolerance: that of sum<bf16' "$kiln" run --seconds=0 summing.tile T=bf16 M=8
expect 0 'tolerance: by type, as no check has these types' "$kiln" run --seconds=0 summing.tile T=e4m3
expect 0 '"tolerance": "by type, as no check has these types", "correct": true' \
    "$kiln" run --json --seconds=0 summing.tile T=e4m3 TC=f32
mkdir -p library/gemm
sed 's/acc += a @ transpose(b)/acc += a @ transpose(a)/' "$source/kernels/gemm/gemm.tile" >library/gemm/gemm.tile
expect 1 '"correct": false, "problem": "WRONG: element 0 of ' "$kiln" bench --json --seconds=0 --kernels=library 'gemm f32 512'
expect 0 '"correct": true, "runs"' "$kiln" bench --json --seconds=0 --kernels="$source/kernels" 'gemm f32 512'

# rewritten kernels
expect 0 'split-index ' "$kiln" bench --cliffs --list
expect 2 "no kernel's name contains 'nonsense'" "$kiln" bench --cliffs nonsense
expect 0 '2 passed, 0 failed, 0 skipped' "$kiln" bench --cliffs --check-only --only=elements --keep=kept --kernels="$source/kernels" rms_norm
grep -q '^// elements, line ' kept/rms_norm-elements-1.tile || { echo 'FAIL: a rewritten kernel is not kept'; failed=$((failed + 1)); }
expect 1 'gemm         the original: ' "$kiln" bench --cliffs --check-only --only=rename --kernels=library gemm
# operators at shapes that a seed draws
expect 0 'gemm: kiln_gemm' "$kiln" bench --sweep --list gemm
expect 2 "there is no family 'gem'" "$kiln" bench --sweep=gem
expect 2 "did you mean 'gemm'" "$kiln" bench --sweep=gem
expect 2 '--shape takes NAME=VALUE' "$kiln" bench --sweep=gemm --shape=M
expect 2 '--compile, --cliffs and --sweep: one of them' "$kiln" bench --sweep=gemm --cliffs
expect 2 '--shape is of --sweep=FAMILY' "$kiln" bench --shape=M=4
expect 2 'cannot write none/page.html: No such file' timeout 5 "$kiln" bench --html=none/page.html --seconds=1000 gemm
expect 2 "gemm has no 'Q'" "$kiln" bench --sweep=gemm --shape=M=4,N=8,K=8,T=bf16,Q=1
expect 2 "gemm needs K=VALUE" "$kiln" bench --sweep=gemm --shape=M=4,N=8,T=bf16
expect 2 "M is not '4x'" "$kiln" bench --sweep=gemm --shape=M=4x,N=8,K=8,T=bf16
expect 2 "T is not 'f17'" "$kiln" bench --sweep=gemm --shape=M=4,N=8,K=8,T=f17
expect 2 '--sweep= needs a value: --sweep=FAMILY' "$kiln" bench --sweep=
expect 0 '| nn | OP=swiglu, N=64, M=3, T=f32 | correct |' "$kiln" bench --sweep=nn --check-only --shape='OP=swiglu, N=64, M=3, T=f32'
cat >peer.sh <<'END'
n=0
while read -r command more; do
    case $command in
    open) n=$((n + 1)); [ $n = 2 ] && echo 'none: it is away' || echo fake ;;
    time) [ $n = 1 ] && echo 1000 || echo 1e-12 ;;
    esac
done
END
expect 0 'worst first' sh -c '"$0" bench --sweep=nn --count=3 --seed=1 --seconds=0 --beside="sh peer.sh" --save=sweep.json >table || exit 1
    awk -F "|" "/no peer: it is away/ { print \"-\" } / fake: / { print \$6 + 0 < 1 ? \"low\" : \"high\" }" table | tr "\n" " " >order
    grep -qx "low high - " order && echo worst first' "$kiln"
expect 0 '| nn | 3 | 0 | 2 |' cat table
expect 0 '"peer": "no peer: it is away"' cat sweep.json
expect 0 'the same shapes' sh -c '"$0" bench --sweep=nn --count=2 --seed=1 --check-only | grep -o "OP=[^|]*" | sort >first
    grep -o "OP=[^\"]*" sweep.json | head -n 2 | sed "s/\$/ /" | sort | cmp - first && echo the same shapes' "$kiln"
expect 0 'the same object' sh -c '"$0" bench --sweep=nn --count=1 --check-only --json --save=saved.json >printed.json && cmp printed.json saved.json && [ -s saved.json ] && echo the same object' "$kiln"
expect 0 'op nn swiglu 4096' "$kiln" bench --list 'op nn'
cat >printing.tile <<'END'
kernel loud(out f32 Y[1]) { grid (); print("\"loud\" {", 1); Y[0] = 4; }
reference loud { Y[0] = 4; }
check loud() { }
END
for command in run test; do                                # the object alone is on standard output
    expect 0 'one object' sh -c '"$0" $1 --json printing.tile 2>said | grep -v "^ *{.*}$\|^]\|cases.*\[$" | grep . ; grep -q loud said && echo one object' "$kiln" $command
    expect 1 '' sh -c '"$0" $1 --json printing.tile 2>/dev/null | grep -q "^printing.tile"' "$kiln" $command
done
expect 1 'WRONG' "$kiln" run --seconds=0 wrong.tile
expect 0 'not checked' "$kiln" run --seconds=0 unchecked.tile N=10
expect 1 "'twice' has no \`check\` to take sizes and arguments from: give N=VALUE" "$kiln" run unchecked.tile
expect 1 'give N=VALUE scale=VALUE' "$kiln" run outer.tile M=2
# Refused before the inputs are made: 2 GB, which take half a minute.
expect 1 'out of memory: Y f32[500000000][20000000] takes 40000000000000000 bytes' \
    timeout 20 "$kiln" run outer.tile M=500000000 N=20000000 scale=1
expect 1 'out of memory: Y f32[600000000][600000000] has more elements' \
    timeout 20 "$kiln" run outer.tile M=600000000 N=600000000 scale=1
expect 1 "'Q' to bind" "$kiln" run good.tile Q=3
expect 2 'no kernel or operator called' "$kiln" run good.tile thrice

# build, dump, explain
expect 0 'twice<f32,64> for cpu' "$kiln" build good.tile
expect 0 'kernel twice' "$kiln" dump good.tile
for stage in ast tile loop source; do
    expect 0 '' "$kiln" dump --stage=$stage good.tile
    [ -s out ] || { echo "FAIL: dump --stage=$stage printed nothing"; failed=$((failed + 1)); }
done
expect 2 'no stage called' "$kiln" dump --stage=nonsense good.tile
expect 2 'choose it with --arch=90' "$kiln" dump --stage=ptx good.tile
expect 1 'broken.tile:7' "$kiln" dump broken.tile
expect 0 'scratch per thread' "$kiln" explain good.tile T=bf16
expect 1 'architecture 70 is not supported' "$kiln" explain --arch=70 good.tile

# fmt
expect 1 'odd.tile' "$kiln" fmt --check odd.tile
expect 0 'kernel twice(in f32 X[N], out f32 Y[N])' "$kiln" fmt --print odd.tile
expect 0 '' "$kiln" fmt odd.tile
expect 0 '' "$kiln" fmt --check odd.tile
grep -q '// why' odd.tile || { echo 'FAIL: fmt lost a comment'; failed=$((failed + 1)); }
expect 2 'Not a directory' "$kiln" fmt /dev/null/x.tile
echo 'kernel k( {' >syntax.tile
expect 1 'syntax.tile:1:' "$kiln" fmt --print syntax.tile

# imports: beside the file, then -I in their order, then KILN_PATH, then the library's; lines of other folders are not shown
mkdir -p app one two three secret
for where in app one two three; do echo "fn f32 $where(" >$where/part.tile; done
echo 'password = hunter2;' >secret/part.tile
printf 'import "part.tile"\nimport "norm/softmax.tile"\nkernel k(out f32 Y[1]) { grid (); Y[0] = 1; }\n' >app/main.tile
expect 1 'app/part.tile:1:12: error' env KILN_PATH="$folder/three" "$kiln" build -I one -Itwo app/main.tile
rm app/part.tile
expect 1 'one/part.tile:1:12: error' env KILN_PATH="$folder/three" "$kiln" build -I one -Itwo app/main.tile
expect 1 'fn f32 two(' env KILN_PATH="$folder/three" "$kiln" test -I two -I one app/main.tile
expect 1 'three/part.tile:1:14: error' env KILN_PATH="/nowhere::$folder/three" "$kiln" dump app/main.tile
expect 1 "app/main.tile:1:8: error: cannot import 'app/part.tile': there is no such file" "$kiln" explain app/main.tile
printf 'import "far.tile"\n' >app/far_one.tile
expect 1 "it was looked for beside this file, then in two, $folder/three" env KILN_PATH="$folder/three" "$kiln" run -I two app/far_one.tile
printf 'import "norm/sofmax.tile"\nkernel k(out f32 Y[1]) { grid (); Y[0] = 1; }\n' >app/near.tile
expect 1 'did you mean "norm/softmax.tile"?' "$kiln" build app/near.tile
sed -i 's/sofmax/softmax/' app/near.tile
expect 0 'k for cpu' "$kiln" build app/near.tile
for path in ../secret/part.tile "$folder/secret/part.tile"; do
    printf 'import "%s"\nkernel k(out f32 Y[1]) { grid (); Y[0] = 1; }\n' "$path" >app/main.tile
    expect 1 'secret/part.tile:1:1: error' "$kiln" build -I one app/main.tile
    if grep -q hunter2 out err; then echo "FAIL: a line of another folder was shown"; failed=$((failed + 1)); fi
done
printf 'import "../secret/part.tile"\n' >one/out.tile                                  # from a folder of imports as well
printf 'import "out.tile"\nkernel k(out f32 Y[1]) { grid (); Y[0] = 1; }\n' >app/main.tile
expect 1 'secret/part.tile:1:1: error' "$kiln" build -I one app/main.tile
if grep -q hunter2 out err; then echo "FAIL: a line of another folder was shown"; failed=$((failed + 1)); fi
expect 2 '-I nowhere: there is no such folder' "$kiln" build -I nowhere good.tile
expect 2 'kiln: -I needs a value: -I DIR' "$kiln" build good.tile -I

# what build writes is for whom the umask lets
for mask in 022 077 002; do
    expect 0 'twice.o' sh -c "umask $mask; exec \"\$@\"" - "$kiln" build --emit=object --output=made$mask/deep good.tile
    for made in "made$mask 777" "made$mask/deep 777" "made$mask/deep/twice.o 666" "made$mask/deep/twice.h 666"; do
        want=$(printf %o $((0${made#* } & ~0$mask))) is=$(stat -c %a "${made% *}")
        [ "$is" = "$want" ] || { echo "FAIL: ${made% *} has mode $is, expected $want"; failed=$((failed + 1)); }
    done
done

# hostile sources: an error at a place, or none; never a crash, nor a long time
repeat() { head -c "$2" /dev/zero | tr '\0' "$1"; }        # repeat CHARACTER TIMES
head='kernel k(out f32 Y[1]) { grid (); Y[0] = '
printf '%s1;\0 }' "$head" >nul.tile
expect 1 'nul.tile:1:44: error: a NUL byte' "$kiln" build nul.tile
printf 'kernel k(out f32 Y[1])\r\n{\r\n    grid ();\r\n    Y[0] = 1;\r\n}\r\n' >returns.tile
expect 0 'k for cpu' "$kiln" build returns.tile
printf '\357\273\277%s1; }\n' "$head" >mark.tile
expect 0 'k for cpu' "$kiln" build mark.tile
printf '%s1\377\376; }' "$head" >latin.tile
expect 1 'latin.tile:1:43: error: this is not valid UTF-8' "$kiln" build latin.tile
echo "$head 18446744073709551616; }" >number.tile
expect 1 'number.tile:1:43: error: this number does not fit into 64 bits' "$kiln" build number.tile
echo "$head 1; } /* never" >comment.tile
expect 1 'error: this comment is never closed' "$kiln" build comment.tile
{ printf '%s' "$head"; repeat '(' 10000; printf 1; repeat ')' 10000; echo '; }'; } >nested.tile
expect 1 'nested more than 200 levels deep' timeout 60 "$kiln" build nested.tile
{ printf '%s' "$head"; repeat '~' 1000000; echo '1; }'; } >signs.tile
expect 1 'nested more than 200 levels deep' timeout 60 "$kiln" build signs.tile
repeat 'a' 100000000 >large.tile
expect 1 'larger than a source may be' timeout 60 "$kiln" build large.tile
expect 1 'at most 4194304 can be compiled' timeout 60 "$kiln" fmt --check large.tile
rm large.tile
mkdir folder.tile
expect 1 'it is a folder' "$kiln" build folder.tile
expect 1 'not a regular file' timeout 60 "$kiln" build /dev/zero
if [ "$(id -u)" = 0 ]; then echo 'skipped: no file is unreadable for root'
else
    cp good.tile locked.tile && chmod 000 locked.tile
    expect 1 'Permission denied' "$kiln" build locked.tile
fi

# list
mkdir -p library/family
{ printf '// SPDX-License-Identifier: MIT\n// good.tile - doubles what it is given. In one pass.\n\n'; cat good.tile unchecked.tile | sed '0,/twice/!s/kernel twice/kernel helper/'; } |
    sed 's/^\/\/ Doubles./\/\/ Doubles X,\n\/\/ exactly. Slowly./' >library/family/good.tile
expect 0 'family/good.tile: doubles what it is given.' "$kiln" list --kernels=library
expect 0 '  twice: Doubles X, exactly.' "$kiln" list --kernels=library tw
grep -q helper out && { echo 'FAIL: list shows what no check is of'; failed=$((failed + 1)); }
expect 0 '"signature": "twice<type T = f32, int BN = 64>(in T X[N], out T Y[N])"' "$kiln" list --json --kernels=library
expect 2 "did you mean 'twice'?" "$kiln" list --kernels=library twiec
expect 2 'did you mean '"'gemm_nt'?" "$kiln" list gem_nt
expect 0 '  gemm_nt(in T A[M][K], in T B[N][K], out TC C[M][N])' "$kiln" list gemm/gemm.tile
expect 1 'broken.tile:1:1: error' sh -c 'mkdir -p bad; echo x >bad/broken.tile; exec "$@"' - "$kiln" list --kernels=bad
expect 2 'gone: No such file' "$kiln" list --kernels=gone

# tune: lists of values, checked and timed; a file of results, taken by the row that is nearest
cat >tune.tile <<'END'
kernel twice<type T = f32, bool NEG = false, int BN = {64, 32, T == f32 ? 128 : 64}, int W = {1, 2}>(in T X[N], out T Y[N])
{
    grid (n : ceildiv(N, BN)) warps(W);
    fragment f32 x[BN] = X[n*BN +: BN];
    forall (i : BN) x[i] *= NEG ? -2 : BN == 32 && W == 2 && N == 7 ? 3 : 2;
    Y[n*BN +: BN] = x;
}
reference twice { for (int i = 0; i < N; i++) Y[i] = (NEG ? -2 : 2) * X[i]; }
check twice<T = {f32, bf16}, BN = 64>(N = {100, 1000}) { tolerance: exact; }
END
expect 0 '6 of 6 choices timed' "$kiln" tune --seconds=20 --output=tuned.txt tune.tile N=5000
expect 0 '"given": "T=bf16, NEG=1"' "$kiln" tune --seconds=20 --json --output=tuned.txt tune.tile T=bf16 NEG=true N=500
expect 0 '2 of 2 choices timed' "$kiln" tune --seconds=20 --tries=2 tune.tile BN=32 N=500
expect 1 'WRONG with BN=32, W=2' "$kiln" tune --seconds=20 tune.tile N=7
expect 2 'no build parameter with a list of values to choose from' "$kiln" tune tune.tile BN=32 W=1
expect 2 '--tries=0' "$kiln" tune --tries=0 tune.tile
[ "$(grep -vc '^#' tuned.txt)" = 2 ] || { echo 'FAIL: two rows were expected'; cat tuned.txt; failed=$((failed + 1)); }
tab=$(printf '\t')
{ echo "twice${tab}cpu${tab}${tab}N=1000${tab}BN=32, W=2${tab}1e-6${tab}2e-6${tab}a machine"
  echo "twice${tab}cpu${tab}${tab}N=10${tab}BN=128, W=1${tab}1e-6${tab}2e-6${tab}a machine"
  echo "twice${tab}cpu${tab}NEG=1${tab}N=10${tab}BN=32, W=1${tab}1e-6${tab}2e-6${tab}a machine"; } >rows.txt
expect 0 'twice<f32,false,32,2>' "$kiln" build --tuned=rows.txt tune.tile
expect 0 'twice<f32,false,128,1>' "$kiln" build --tuned=rows.txt --tuned-for=N=20 tune.tile
expect 0 'twice<f32,false,64,1>' "$kiln" build --tuned=rows.txt --tuned-for=N=20 tune.tile BN=64
expect 0 'twice<f32,true,32,1>' "$kiln" build --tuned=rows.txt tune.tile NEG=true
expect 0 'twice<bf16,false,64,1>' "$kiln" build --tuned=rows.txt tune.tile T=bf16
expect 0 'BN=32, W=2' "$kiln" run --tuned=rows.txt --seconds=0 tune.tile N=2000
expect 0 'twice_portable.c' "$kiln" build --tuned=rows.txt --emit=c --isa=avx2,portable --output=tuned tune.tile
grep -q 'twice<f32,false,32,2>' tuned/twice.c || { echo 'FAIL: an ahead-of-time build without tuned values'; failed=$((failed + 1)); }
echo "twice${tab}cpu${tab}${tab}N=10${tab}BN=32, WW=1${tab}1e-6${tab}2e-6${tab}a machine" >rows.txt
expect 1 "rows.txt: the tuned values of 'twice': 'twice' has nothing called 'WW' to bind" "$kiln" build --tuned=rows.txt tune.tile
echo 'twice' >rows.txt
expect 1 'rows.txt:1: a row of tuned values has 8 fields apart by tabs, not 1' "$kiln" build --tuned=rows.txt tune.tile
expect 1 'gone.txt: cannot read the file of tuned values: No such file' "$kiln" build --tuned=gone.txt tune.tile
eight='{1, 2, 3, 4, 5, 6, 7, 8}'
cat >many.tile <<END
kernel many<int A = $eight, int B = $eight, int C = $eight, int D = $eight, int E = $eight, int F = $eight, int G = $eight, int H = $eight>(in f32 X[N], out f32 Y[N])
{
    grid ();
    forall (i : N) Y[i] = A*B*C*D*E*F*G*H*X[i];
}
END
echo "many${tab}cpu${tab}${tab}N=10${tab}H=7${tab}1e-6${tab}2e-6${tab}a machine" >rows.txt
expect 0 'many<1,1,1,1,1,1,1,7>' "$kiln" build --tuned=rows.txt many.tile
expect 0 '1 of more than 20000 choices timed' "$kiln" tune --seconds=5 --tries=1 many.tile N=10

# kiln_gemm's table of times that were made up: the tile that the table expects to be faster is the slower one.
{
    echo 'M,N,K,size,BM,BN,steps,stages,turned,parts,us,peer'
    for m in 100 200 300 400 500 600 700 800 900; do
        for n in 512 1024; do echo "$m,$n,512,2,128,128,1,6,0,1,30,10
$m,$n,512,2,128,256,1,4,0,1,9,10"; done
    done
} >times.csv
expect 0 'fitted, others: ' "$kiln" tune --gemm-table=times.csv --steps=2000 --output=costs.c
expect 0 'const GemmTile gemm_tiles' cat costs.c
echo '1,2,3' >>times.csv
expect 2 'times.csv:38: no time of a tile' "$kiln" tune --gemm-table=times.csv
expect 2 'cannot read none.csv' "$kiln" tune --gemm-table=none.csv
expect 2 'are a GPU' "$kiln" tune --gemm-table=none.csv --device=cpu

# devices, cache
expect 0 'cpu ' "$kiln" devices
expect 0 '"cpu": {"usable": true' "$kiln" devices --json
expect 0 "$folder/cache" "$kiln" cache
expect 0 '"bytes"' "$kiln" cache --json
expect 0 'removed 0 files' "$kiln" cache --clean --older=1
expect 0 'removed' "$kiln" cache --clean
expect 0 ': 0 files' "$kiln" cache
expect 0 '8 passed' "$kiln" test good.tile

# print shows f32 with all its digits and u64 without a sign.
cat >shown.tile <<'END'
kernel shown(in u64 X[1], out f32 Y[1]) { grid (); Y[0] = 0.1; print("{} {} {}", X[0] - 1, convert<f32>(0.1), -1); }
reference shown { Y[0] = 0.1; }
check shown() { input X = 0; }
END
expect 0 '18446744073709551615 0.100000001 -1' "$kiln" test shown.tile

[ $failed = 0 ] && echo 'the command: ok'
exit $((failed > 0))
