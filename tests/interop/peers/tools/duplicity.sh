# Volumes by rsync and by sftp (pexpect): a full and an incremental backup, and the files back.
export PASSPHRASE=secret GNUPGHOME="$T_DIR/gnupg" HOME="$T_DIR"
mkdir -p gnupg .ssh by-rsync by-sftp
chmod 700 gnupg .ssh
for url in "rsync://$T_HOST/$T_DIR/by-rsync" "pexpect+sftp://$T_HOST/$T_DIR/by-sftp"; do
    options="--no-encryption --archive-dir $T_DIR/archive --volsize 1 --num-retries 1"
    duplicity full $options tree "$url"
    echo more >>tree/1
    duplicity incremental $options tree "$url"
    rm -rf back
    duplicity restore $options "$url" back
    diff -r tree back
done
