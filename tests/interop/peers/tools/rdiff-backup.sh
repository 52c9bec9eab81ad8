# rdiff-backup: two states there, and the first one back.
export HOME="$T_DIR"
cp -a tree first
rdiff-backup --remote-schema 'ssh %s rdiff-backup server' backup tree "$T_HOST::$T_DIR/backup" ||
    rdiff-backup tree "$T_HOST::$T_DIR/backup"
sleep 1.1
echo more >>tree/1
rdiff-backup backup tree "$T_HOST::$T_DIR/backup"
rdiff-backup restore --at 1B "$T_HOST::$T_DIR/backup" back
diff -r first back
