# A repository over the subsystem sftp: two snapshots, a check, the files back.
export RESTIC_REPOSITORY="sftp:$T_HOST:$T_DIR/repository" RESTIC_PASSWORD=secret RESTIC_CACHE_DIR="$T_DIR/cache" GOMAXPROCS=2
restic init
restic backup tree
echo more >>tree/1
restic backup tree
restic check --read-data
test "$(restic snapshots --json | grep -o '"short_id"' | wc -l)" = 2
restic restore latest --target back
diff -r tree back/tree
restic forget --keep-last 1 --prune
