# vim's netrw: a file read and written by scp:// and sftp://, a folder listed.
export HOME="$T_DIR"
echo one >there
for method in scp sftp; do
    vim -u NONE -i NONE -n -N -es --cmd 'set rtp=$VIMRUNTIME' -c 'let g:netrw_silent=1' -c 'runtime plugin/netrwPlugin.vim' \
        -c "edit $method://$T_HOST/$T_DIR/there" -c "call append(line('\$'), '$method')" -c write -c 'qall!' </dev/null
    grep -qx "$method" there || { cat there; exit 1; }
done
vim -u NONE -i NONE -n -N -es --cmd 'set rtp=$VIMRUNTIME' -c 'runtime plugin/netrwPlugin.vim' \
    -c "edit scp://$T_HOST/$T_DIR/tree/" -c "w! $T_DIR/listing" -c 'qall!' </dev/null
grep -q '^7$' listing
