# Emacs in batch: a file read and written, a folder listed, a process, a copy, by the methods ssh, scp, rsync and sshx.
cat >tramp.el <<'END'
(require 'tramp)
(setq tramp-verbose 1 auto-save-default nil make-backup-files nil
      tramp-persistency-file-name nil
      tramp-ssh-controlmaster-options "-o ControlMaster=auto -o ControlPath='tramp.%%C' -o ControlPersist=no")
(let ((dir (getenv "T_DIR")) (host (getenv "T_HOST")))
  (dolist (method '("ssh" "scp" "sshx" "rsync"))
    (let* ((base (format "/%s:%s:%s/" method host dir))
           (file (concat base "by-" method)))
      (with-temp-file file (insert "from " method "\n"))
      (with-temp-buffer
        (insert-file-contents file)
        (unless (equal (buffer-string) (format "from %s\n" method)) (error "contents %s" method)))
      (unless (member "tree" (directory-files base)) (error "list %s" method))
      (copy-file (concat dir "/data") (concat base "data-" method) t)
      (copy-file (concat base "data-" method) (concat dir "/back-" method) t)
      (rename-file file (concat file "-renamed") t)
      (set-file-modes (concat file "-renamed") #o640)
      (let ((default-directory base))
        (with-temp-buffer
          (unless (= 0 (process-file "sh" nil t nil "-c" "echo $((40 + 2))")) (error "process %s" method))
          (unless (equal (buffer-string) "42\n") (error "output %s" method)))
        (with-temp-buffer
          (let ((process (start-file-process "p" (current-buffer) "cat")))
            (process-send-string process "said\n")
            (process-send-eof process)
            (while (process-live-p process) (accept-process-output process 1)))
          (goto-char 1)
          (unless (search-forward "said" nil t) (error "asynchronous %s" method))))
      (tramp-cleanup-all-connections))))
END
TERM=dumb emacs --batch -Q -l tramp.el
for method in ssh scp sshx rsync; do
    grep -qx "from $method" "by-$method-renamed"
    test "$(stat -c %a "by-$method-renamed")" = 640
    cmp data "data-$method"
    cmp data "back-$method"
done
