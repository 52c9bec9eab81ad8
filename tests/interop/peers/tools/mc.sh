# Midnight Commander: a panel with sh:// there, a file copied from it by F5, and one sent.
export HOME="$T_DIR" TERM=xterm LC_ALL=C.UTF-8
there="tmux -L mc-$(basename "$T_DIR") -f /dev/null"
trap '$there kill-server' EXIT
mkdir panel
$there new-session -d -x 100 -y 30 "mc -u -x $T_DIR/panel sh://$T_HOST/$T_DIR/tree; echo \$? >mc.status"
await() { for turn in $(seq 300); do $there capture-pane -p >pane && grep -q -- "$1" pane && return; sleep 0.1; done; cat pane; exit 1; }
await "sh://$T_HOST"
$there send-keys Tab
await ' 17 '
$there send-keys End
$there send-keys F5
await Copy
$there send-keys Enter
for turn in $(seq 200); do ls panel | grep -q . && break; sleep 0.1; done
name=$(ls panel)
for turn in $(seq 100); do cmp -s "panel/$name" "tree/$name" && break; sleep 0.1; done
cmp "panel/$name" "tree/$name"
