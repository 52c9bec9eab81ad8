# Its own client (Go's x/crypto/ssh and pkg/sftp): a tree there, compared by checksums, and back.
export RCLONE_CONFIG=/dev/null RCLONE_SFTP_HOST=127.0.0.1 RCLONE_SFTP_PORT="$T_PORT" RCLONE_SFTP_USER="$T_USER" \
    RCLONE_SFTP_KEY_FILE="$T_KEY" RCLONE_SFTP_KNOWN_HOSTS_FILE="$T_KNOWN_HOSTS"
rclone copy tree ":sftp:$T_DIR/there"
rclone copyto data ":sftp:$T_DIR/there/data"
cmp data there/data
rclone check --one-way tree ":sftp:$T_DIR/there" 2>check || { cat check; exit 1; }
# It runs md5sum there.
RCLONE_SFTP_MD5SUM_COMMAND=md5sum rclone hashsum md5 ":sftp:$T_DIR/there" | grep "$(md5sum <data | cut -d' ' -f1)"
rclone move ":sftp:$T_DIR/there" back
cmp data back/data
rm back/data
diff -r tree back
rclone about ":sftp:$T_DIR"
