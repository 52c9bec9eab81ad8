#!/bin/sh
# Makes the packages of the last commit twice, from two clones below FOLDER whose paths differ in length, and
# compares them.
#
#   try-reproducible.sh FOLDER [deb] [rpm] [tarball] [--profile NAME]
#
# Each clone builds by itself: with Cargo's profile `release` that takes twice the time of a release build, and
# twice that for the tarball.
set -eu
unset CARGO_TARGET_DIR
[ $# -ge 1 ] || { sed -n '5p' "$0" >&2; exit 2; }
source=$(readlink -f "$(dirname "$0")/..")
folder=$1
shift
[ $# -ge 1 ] || set -- deb rpm
mkdir -p "$folder"
folder=$(readlink -f "$folder")
for clone in one another-folder-with-a-longer-name; do
    if [ -e "$folder/$clone" ]; then
        echo "$folder/$clone exists: name a folder without it" >&2
        exit 2
    fi
    git clone -q --no-hardlinks "$source" "$folder/$clone"
    (cd "$folder/$clone" && cargo run -q -p xtask -- package "$@") >"$folder/$clone.log" 2>&1 || {
        tail -20 "$folder/$clone.log" >&2
        exit 1
    }
done
one=$folder/one/target/package/SHA256SUMS
two=$folder/another-folder-with-a-longer-name/target/package/SHA256SUMS
cat "$one"
if diff "$one" "$two" >/dev/null; then
    echo "both clones made the same packages"
else
    echo "the packages differ:" >&2
    cat "$two" >&2
    exit 1
fi
