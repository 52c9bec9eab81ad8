# The login by ssh, then the session over UDP, at a terminal.
export LC_ALL=C.UTF-8 TERM=xterm
cat >there.sh <<END
tty >$T_DIR/tty
stty size >$T_DIR/size
END
script -qec "stty rows 30 cols 90; mosh --ssh=ssh $T_HOST -- sh $T_DIR/there.sh" /dev/null >screen 2>&1 </dev/null || { cat screen; exit 1; }
grep -q ^/dev/pts/ tty
grep -qx '30 90' size
