# Its own client of sftp and fish over a started ssh: a mirror there and back, with parallel files.
cat >script <<END
set sftp:connect-program "ssh -a -x"
set fish:connect-program "ssh -a -x"
set net:max-retries 1
set cmd:fail-exit yes
open sftp://$T_HOST
mkdir -p $T_DIR/there
mirror -R --parallel=3 tree $T_DIR/there
put data -o $T_DIR/there/data
pget -n 3 $T_DIR/there/data -o pieces
rm $T_DIR/there/data
mirror --parallel=3 $T_DIR/there back
chmod 600 $T_DIR/there/1
ls $T_DIR/there
close
open fish://$T_HOST
get $T_DIR/there/2 -o by-fish
put data -o $T_DIR/by-fish-there
exit
END
lftp -f script
cmp data pieces
cmp data by-fish-there
cmp tree/2 by-fish
diff -r tree back
test "$(stat -c %a there/1)" = 600
