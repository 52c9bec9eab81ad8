/*
 * Which functions of a program run, and in which of its roles: a breakpoint on each, taken away
 * when it is hit. For x86-64. It slows what it watches by some 50 ms for each exec.
 *
 *   trace OUT BINARY FUNCTIONS COMMAND...
 *
 * FUNCTIONS holds the addresses of BINARY's symbols in hexadecimal, one a line. Each first run is a
 * line of OUT: the role (what BINARY was last executed as: the word behind its name) and the address.
 * Where COMMAND's first process ends, or this one is killed, everything that it started ends.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct traced {
    int pid, begun, announced;
    unsigned long base;
    char role[64];
};

static struct traced all[65536];
static int known;
static struct stat binary;
static unsigned long start, size;
static unsigned char *code, *patched, *breaks;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct traced *find(int pid) {
    for (int i = known - 1; i >= 0; i--)
        if (all[i].pid == pid) return &all[i];
    if (known == 65536) fail("too many processes");
    all[known].pid = pid;
    return &all[known++];
}

/* The executable segment, as the file has it, and with breakpoints. */
static void load(const char *path, const char *functions) {
    int file = open(path, O_RDONLY);
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    if (file < 0 || fstat(file, &binary) || pread(file, &head, sizeof head, 0) != sizeof head) fail(path);
    for (int i = 0; i < head.e_phnum; i++) {
        off_t at = head.e_phoff + i * sizeof segment;
        if (pread(file, &segment, sizeof segment, at) != sizeof segment) fail(path);
        if (segment.p_type == PT_LOAD && segment.p_flags & PF_X) break;
    }
    start = segment.p_vaddr;
    size = segment.p_filesz;
    code = malloc(size), patched = malloc(size), breaks = calloc(size, 1);
    if (!code || !patched || !breaks) fail("memory");
    if (pread(file, code, size, segment.p_offset) != (ssize_t)size) fail(path);
    close(file);
    memcpy(patched, code, size);
    FILE *list = fopen(functions, "r");
    if (!list) fail(functions);
    for (unsigned long at; fscanf(list, "%lx", &at) == 1;)
        if (at >= start && at < start + size) breaks[at - start] = 1, patched[at - start] = 0xcc;
    fclose(list);
}

/* Where the binary is mapped, or 0. */
static unsigned long base_of(int pid) {
    char line[512], path[64];
    unsigned long from, offset, inode, base = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    while (maps && !base && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%*x %*s %lx %*s %lu", &from, &offset, &inode) == 3 && !offset && inode == binary.st_ino)
            base = from;
    if (maps) fclose(maps);
    return base;
}

static void put(int pid, const unsigned char *bytes, size_t count, unsigned long at) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDWR);
    if (memory < 0 || pwrite(memory, bytes, count, at) != (ssize_t)count) fail(path);
    close(memory);
}

static void executed(struct traced *process) {
    char path[64], words[256] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", process->pid);
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, words, sizeof words - 1) < 0) fail(path);
    close(file);
    process->base = base_of(process->pid);
    snprintf(process->role, sizeof process->role, "%s", words + strlen(words) + 1);
    if (process->base) put(process->pid, patched, size, process->base + start);
}

/* Whether the process stands behind one of our breakpoints; it goes on from the function's start. */
static int hit(struct traced *process, FILE *out) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, process->pid, 0, &registers)) return 0;
    unsigned long at = registers.rip - 1 - process->base - start;
    if (!process->base || at >= size || !breaks[at]) return 0;
    put(process->pid, code + at, 1, process->base + start + at);
    registers.rip--;
    ptrace(PTRACE_SETREGS, process->pid, 0, &registers);
    fprintf(out, "%s %lx\n", process->role, start + at);
    return 1;
}

int main(int count, char **words) {
    if (count < 5) return 2;
    load(words[2], words[3]);
    FILE *out = fopen(words[1], "w");
    if (!out) fail(words[1]);
    setlinebuf(out);
    int first = fork(), status;
    if (!first) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(words[4], words + 4);
        _exit(127);
    }
    waitpid(first, &status, 0);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, first, 0, options)) fail("ptrace");
    find(first)->begun = find(first)->announced = 1;
    ptrace(PTRACE_CONT, first, 0, 0);
    for (;;) {
        int pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno != EINTR) fail("waitpid");
        if (pid < 0) continue;
        struct traced *process = find(pid);
        if (!WIFSTOPPED(status)) {
            process->pid = -1;
            if (pid == first) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) {
            executed(process);
            signal = 0;
        } else if (event) {
            unsigned long pid_of_new;
            ptrace(PTRACE_GETEVENTMSG, pid, 0, &pid_of_new);
            struct traced *child = find(pid_of_new);
            child->base = process->base;
            memcpy(child->role, process->role, sizeof child->role);
            child->announced = 1;
            /* It may have stopped before its parent has said that it is there. */
            if (child->begun) ptrace(PTRACE_CONT, child->pid, 0, 0);
            signal = 0;
        } else if (signal == SIGSTOP && !process->begun) {
            process->begun = 1;
            if (!process->announced) continue;
            signal = 0;
        } else if (signal == SIGTRAP && hit(process, out)) {
            signal = 0;
        }
        ptrace(PTRACE_CONT, pid, 0, signal);
    }
}
