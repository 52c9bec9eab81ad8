# A mounted folder: files, names, links, modes, times, free space.
mkdir there mount
sshfs "$T_HOST:$T_DIR/there" mount -o idmap=none
trap 'fusermount3 -u -z "$T_DIR/mount" || fusermount -u -z "$T_DIR/mount"' EXIT
cp data mount/data
cmp data there/data
dd if=mount/data of=part bs=4096 skip=3 count=5 2>&1
dd if=data bs=4096 skip=3 count=5 of=wanted 2>&1
cmp part wanted
printf end >>mount/data
test "$(tail -c 3 there/data)" = end
truncate -s 100 mount/data
test "$(stat -c %s there/data)" = 100
mkdir mount/folder
mv mount/data mount/folder/moved
echo other >mount/other
mv -f mount/other mount/folder/moved
test "$(cat there/folder/moved)" = other
ln -s folder/moved mount/link
test "$(readlink there/link)" = folder/moved
test "$(cat mount/link)" = other
ln there/folder/moved there/hard
chmod 640 mount/folder/moved
test "$(stat -c %a there/folder/moved)" = 640
touch -d '2001-02-03 04:05:06 UTC' mount/folder/moved
test "$(stat -c %Y there/folder/moved)" = 981173106
for number in $(seq 300); do : >"there/folder/$number"; done
test "$(ls mount/folder | wc -l)" = 301
df mount | grep -q /
rm -r mount/folder
test ! -e there/folder
