# Jobs there: arguments, files sent and fetched (rsync), one job for each host, a failure's status.
export PARALLEL_HOME="$T_DIR/parallel" PARALLEL_SSH=ssh
mkdir parallel
: >parallel/will-cite
test "$(parallel -S 4/"$T_HOST" -k echo 'a {}' ::: 1 2 '3  x' "q'q" | tr '\n' ,)" = "a 1,a 2,a 3  x,a q'q,"
cd tree
parallel -S "$T_HOST" --trc '{}.sum' --wd ... 'md5sum {} >{}.sum' ::: 3 4
test "$(cut -d' ' -f1 3.sum)" = "$(md5sum <3 | cut -d' ' -f1)"
cd ..
test "$(parallel --nonall -S "$T_HOST" 'echo all')" = all
code=0
parallel -S "$T_HOST" 'exit {}' ::: 0 3 0 7 || code=$?
test "$code" = 2
seq 1000 | parallel -S "$T_HOST" --pipe -N 250 wc -l | sort -u | grep -qx 250
