# lsyncd in its mode rsyncssh: what changes here, moves and goes away there.
mkdir there
cat >lsyncd.lua <<END
settings { nodaemon = true, insist = true, inotifyMode = "CloseWrite or Modify" }
sync { default.rsyncssh, source = "$T_DIR/tree", host = "$T_HOST", targetdir = "$T_DIR/there", delay = 0,
       rsync = { rsh = "ssh", archive = true }, ssh = { binary = "$(command -v ssh)" } }
END
lsyncd lsyncd.lua >lsyncd.log 2>&1 &
trap 'kill $!; wait' EXIT
await() { for turn in $(seq 200); do "$@" && return; sleep 0.1; done; cat lsyncd.log; exit 1; }
await cmp -s tree/9 there/9
echo new >tree/new
await cmp -s tree/new there/new
mv tree/new tree/moved
await test -e there/moved
rm tree/moved
await test ! -e there/moved
