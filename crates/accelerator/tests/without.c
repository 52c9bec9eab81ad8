/*
 * Runs a program as on a kernel that lacks something:
 *
 *   without landlock|seccomp PROGRAM [ARGUMENTS]
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

/* landlock_create_ruleset, on every architecture. */
#define CREATE_RULESET 444

int main(int argc, char **argv)
{
    struct sock_filter landlock[] = {
        LOAD(nr),
        UNLESS(CREATE_RULESET, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter seccomp[] = {
        LOAD(nr),
        UNLESS(SYS_seccomp, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        UNLESS(SYS_prctl, 3),
        LOAD(args[0]),
        UNLESS(PR_SET_SECCOMP, 1),
        RETURN(SECCOMP_RET_ERRNO | EINVAL),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof landlock / sizeof *landlock, landlock };
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "seccomp") == 0) {
        program.len = sizeof seccomp / sizeof *seccomp;
        program.filter = seccomp;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("without");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
