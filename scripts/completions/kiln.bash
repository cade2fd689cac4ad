# SPDX-License-Identifier: MIT
# Completion of `kiln` for bash: commands, and their options, from --help; then files.
_kiln()
{
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(kiln --help 2>/dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p') help" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(kiln "$command" --help 2>/dev/null | sed -n 's/^  \(-[-a-zA-Z]*\).*/\1/p')" -- "$word")
    elif [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(kiln --help 2>/dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -X '!*.tile' -- "$word"; compgen -d -S / -- "$word")
    fi
}
complete -o nospace -F _kiln kiln
