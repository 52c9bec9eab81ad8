# curl by libssh2: sftp:// and scp:// there and back, the rest of a file, commands, a listing.
fetch() { curl -sS --fail --user "$T_USER:" --key "$T_KEY" --pubkey "$T_KEY.pub" --insecure "$@"; }
base="127.0.0.1:$T_PORT$T_DIR"
for scheme in sftp scp; do
    fetch -T data "$scheme://$base/by-$scheme"
    cmp data "by-$scheme"
    fetch "$scheme://$base/by-$scheme" -o "back-$scheme"
    cmp data "back-$scheme"
done
head -c 100000 data >rest
fetch -C - "sftp://$base/data" -o rest
cmp data rest
fetch -r 1000-1999 "sftp://$base/data" | cmp - "$(head -c 2000 data | tail -c 1000 >middle; echo middle)"
fetch "sftp://$base/tree/" | grep -q ' 7$'
fetch -Q "-rename $T_DIR/by-scp $T_DIR/renamed" -Q "-chmod 600 $T_DIR/renamed" "sftp://$base/tree/1" -o /dev/null
test "$(stat -c %a renamed)" = 600
fetch --ftp-create-dirs -T data "sftp://$base/new/folder/data"
cmp data new/folder/data
