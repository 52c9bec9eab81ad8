# Streams through ssh, as zfs send, dd, tar and dump make them: both ways, both at once, with statuses.
ssh "$T_HOST" "cat >$T_DIR/by-pipe" <data
cmp data by-pipe
cat data data data | ssh "$T_HOST" 'gzip -1 | gunzip' | cmp - three
ssh "$T_HOST" "tar -C $T_DIR -cf - tree" | (mkdir back && tar -C back -xf -)
diff -r tree back/tree
ssh "$T_HOST" "cat $T_DIR/data" | ssh "$T_HOST" "md5sum" | grep -q "$(md5sum <data | cut -d' ' -f1)"
ssh "$T_HOST" 'yes | head -n 200000' 2>/dev/null | head -n 3 >yes
test "$(wc -l <yes)" = 3
code=0
head -c 100000 /dev/zero | ssh "$T_HOST" 'head -c 10 >/dev/null; exit 9' || code=$?
test "$code" = 9
