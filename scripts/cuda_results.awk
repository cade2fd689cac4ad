# cuda_results.awk - what `kiln test` says for CUDA, with the builds that are known not to do yet counted as skipped.
#
# known=FILE: each line the beginning of what follows "FAIL" for such a build, "FILE: KERNEL<BINDINGS"; # starts a
# comment. Failures that are listed become "skip" lines with the compiler's reason; all other lines pass through. The
# closing line is counted anew.
BEGIN {
    while ((getline line < known) > 0)
        if (line !~ /^(#|$)/) starts[line] = 1
}

function is_listed(name,   start) {
    for (start in starts)
        if (index(name, start) == 1) return 1
    return 0
}

/^(ok|FAIL|skip) +[^ ]+: [0-9]+ passed,/ { listed = 0; next }            # the summary of a file
/^ok / {
    listed = 0
    if (is_listed(substr($0, index($0, $2)))) print "note: does now, take it off the list: " $0
    next
}

/^FAIL / {
    name = substr($0, index($0, $2))
    cases = match(name, / \([0-9]+ cases?\)$/) ? substr(name, RSTART + 2) + 0 : 1
    listed = is_listed(name)
    if (listed) skipped += cases
    else print
    wants_reason = listed
    next
}
wants_reason { sub(/^ +/, ""); print "skip " name ": " $0; wants_reason = 0; next }

/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { passed = $1; failed = $3; skips = $5; complete = 1; next }
!listed

END {
    if (!complete) { print "error: kiln test ended early"; failed++ }
    print passed + 0 " passed, " failed - skipped " failed, " skips + skipped " skipped"
    exit failed > skipped
}
