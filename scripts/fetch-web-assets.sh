#!/bin/sh
# Fetches the chart library of the pages: uPlot (MIT licence), built files only, from npm's registry.
set -eu

package="uplot@1.6.32"
target="mosaic/web/static/uplot"

command -v npm >/dev/null 2>&1 || sh scripts/system-packages.sh web
if ! command -v npm >/dev/null 2>&1; then
    echo "npm is missing, so the pages' charts cannot be fetched; install it and run: make setup-web" >&2
    exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm pack --silent "$package" >/dev/null && tar xzf ./*.tgz)
mkdir -p "$target"
cp "$folder/package/dist/uPlot.iife.min.js" "$folder/package/dist/uPlot.min.css" \
    "$folder/package/LICENSE" "$target/"
