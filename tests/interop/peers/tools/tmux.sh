# A session of tmux there, detached, typed into, attached by a second login at a terminal.
export LC_ALL=C.UTF-8 TERM=xterm
there="tmux -L $(basename "$T_DIR") -f /dev/null"
ssh "$T_HOST" "env -u TMUX $there new-session -d -x 80 -y 24 sh"
ssh "$T_HOST" "$there send-keys 'echo s\$((40+2))n' Enter"
for turn in $(seq 100); do
    ssh "$T_HOST" "$there capture-pane -p" >pane
    grep -q '^s42n' pane && break
done
grep -q '^s42n' pane
cat >leave.sh <<END
until $there list-clients | grep -q .; do sleep 0.1; done
$there detach-client
END
ssh "$T_HOST" "$there send-keys 'sh $T_DIR/leave.sh' Enter"
script -qec "stty rows 24 cols 80; ssh -t $T_HOST $there attach" /dev/null >screen 2>&1 </dev/null
grep -q 'detached' screen
ssh "$T_HOST" "$there kill-server"
