# A repository there: two archives, a check, a listing, and the files back.
export BORG_RSH=ssh BORG_BASE_DIR="$T_DIR/borg" BORG_PASSPHRASE=secret BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
borg init -e repokey-blake2 "$T_HOST:$T_DIR/repository"
borg create "$T_HOST:$T_DIR/repository::one" tree
echo more >>tree/1
borg create "ssh://$T_HOST$T_DIR/repository::two" tree
borg check "$T_HOST:$T_DIR/repository"
borg list --short "$T_HOST:$T_DIR/repository" | grep -qx two
mkdir back
(cd back && borg extract "$T_HOST:$T_DIR/repository::two")
diff -r tree back/tree
