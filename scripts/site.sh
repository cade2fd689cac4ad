#!/bin/sh
# SPDX-License-Identifier: MIT
# site.sh - make the documentation site in BUILD/site: docs/, the gallery of kernels, the headers, the Python package, the command.
# usage: site.sh BUILD [--few] [--explain]
#   --few      the documents, and one of each other kind: for a quick look
#   --explain  with a page of `kiln explain --html` for each kernel and operator; compiles them all
#
# BUILD has the command. Sphinx, MyST and Furo are taken from python3, or else installed into BUILD/site-python by pip.
# Ends with 1 if something is missing, if a page cannot be made, if Sphinx has a warning, or if a link leads nowhere.
set -u
build=$1
shift
cd "$(dirname "$0")/.." || exit 1
python=python3
if ! "$python" -c 'import sphinx, myst_parser, furo' 2>/dev/null; then
    python=$build/site-python/bin/python
    if ! "$python" -c 'import sphinx, myst_parser, furo' 2>/dev/null; then
        echo "installing Sphinx, MyST and Furo in $build/site-python"
        if ! python3 -m venv "$build/site-python" || ! "$python" -m pip install -q --disable-pip-version-check -r docs/site/requirements.txt; then
            echo "they cannot be installed from here; please type:"
            echo "    python3 -m pip install -r docs/site/requirements.txt"
            exit 1
        fi
    fi
fi
few=
case " $* " in *" --few "*) few=--few ;; esac
case " $* " in *" --explain "*) echo "compiling every kernel for its page of kiln explain: minutes" ;; esac
"$python" docs/site/pages.py "$@" "$build/kiln" . "$build/site-source" || exit 1
rm -rf "$build/site"
"$python" -m sphinx -q -W --keep-going -j auto -d "$build/site-doctrees" -b html "$build/site-source" "$build/site" || exit 1
# shellcheck disable=SC2086
"$python" docs/site/check_site.py $few . "$build/site" || exit 1
echo "the site: $build/site/index.html"
