"""Attempts to get out, as bodies of a function. Each returns something true when it got what it wanted; none may."""

from __future__ import annotations

ATTEMPTS = {
    "read /etc/shadow": "return open('/etc/shadow').read()",
    "read /etc/passwd": "return open('/etc/passwd').read()",
    "list the home": "return [n for n in os.listdir(HOME) if not PREFIX.startswith(HOME + '/' + n)]",
    "list the repository": "return os.listdir(REPOSITORY)",
    "import the repository": "import tools, memory\nreturn True",
    "import from the environment": "import pydantic\nreturn True",
    "read a file of the host": "return open(CANARY).read()",
    "follow a symlink out": "os.symlink(CANARY, 'link')\nreturn open('link').read()",
    "hard link": "os.link(CANARY, 'hard')\nreturn True",
    "list the host's /tmp": "return [n for n in os.listdir('/tmp') if n in HOST_TMP]",
    "list /proc": "return os.listdir('/proc')",
    "environment of the host": "return open(f'/proc/{HOST_PID}/environ').read() or open('/proc/1/environ').read()",
    "list /sys": "return os.listdir('/sys')",
    "environment": "return [v for v in os.environ.values() if 'canary' in v]",
    "environment of the C library": "return ctypes.CDLL(None).getenv(b'LONGSTRIDE_CANARY')",
    "connect to loopback": "return socket.create_connection(('127.0.0.1', PORT), 2)",
    "connect over IPv6": "return socket.create_connection(('::1', PORT), 2)",
    "resolve a name": "return socket.getaddrinfo('localhost', 80) and socket.gethostbyname('example.org')",
    "connect to an abstract socket": "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + ABSTRACT)\nreturn True",
    "connect to a socket file": "s = socket.socket(socket.AF_UNIX)\ns.connect(SOCKET_FILE)\nreturn True",
    "vsock": "return socket.socket(40, socket.SOCK_STREAM)",
    "netlink": "return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "raw packets": "return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "write to the root": "return open('/escaped', 'w')",
    "write to the library": "return open(os.path.dirname(os.__file__) + '/escaped.py', 'w')",
    "write to numpy": "return open('/packages/numpy/escaped.py', 'w')",
    "write to /dev": "return open('/dev/escaped', 'w')",
    "write to the hidden folder": "return [open(p + '/x', 'w') for p in HIDDEN]",
    "devices": "return set(os.listdir('/dev')) - {'null', 'zero', 'full', 'urandom'}",
    "make a device": "os.mknod('disk', 0o60600, os.makedev(254, 0))\nreturn open('disk', 'rb').read(1)",
    "terminal": "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')\nreturn True",
    "mount": "return libc.mount(b'none', b'/workspace', b'tmpfs', 0, b'') == 0",
    "remount writable": "return libc.mount(b'none', b'/', b'none', ctypes.c_ulong(32 | 4096), b'') == 0",
    "unmount": "return libc.umount2(b'/workspace', 2) == 0",
    "new user namespace": "return libc.unshare(0x10000000) == 0",
    "new user namespace by clone": (
        "pid = libc.syscall(CLONE, ctypes.c_ulong(0x10000000 | 17), 0, 0, 0, 0)\n"
        "if pid == 0: os._exit(0)\n"
        "return pid > 0"
    ),
    "clone3": "return libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38",
    "join a namespace": "return libc.setns(0, 0) == 0 or ctypes.get_errno() != 1",
    "become root": "os.setresuid(0, 0, 0)\nreturn os.mknod('disk', 0o60600, os.makedev(254, 0)) is None",
    "give a file away": "open('f', 'w').close()\nos.chown('f', 12345, 12345)\nreturn True",
    "chroot": "os.chroot('/workspace')\nreturn True",
    "trace the first process": "return libc.ptrace(16, 1, 0, 0) == 0",
    "trace oneself": "return libc.ptrace(0, 0, 0, 0) == 0",
    "read another's memory": (
        "return libc.syscall(NR['process_vm_readv'], 1, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1"
    ),
    "signal the host": "os.kill(HOST_PID, 0)\nreturn True",
    "kill the first process": "os.kill(1, 9)\nos.kill(1, 2)\nreturn False",
    "signal all": "signal.signal(15, signal.SIG_IGN)\nos.kill(-1, 15)\nreturn False",
    "open by handle": "return libc.syscall(NR['open_by_handle_at'], 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "io_uring": "return libc.syscall(NR['io_uring_setup'], 8, ctypes.create_string_buffer(256)) != -1",
    "bpf": "return libc.syscall(NR['bpf'], 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "perf events": "return libc.syscall(NR['perf_event_open'], 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "userfaultfd": "return libc.syscall(NR['userfaultfd'], 0) != -1",
    "keyring": "return libc.syscall(NR['keyctl'], 0, -3, 0, 0, 0) != -1",
    "kernel log": "return libc.klogctl(10, None, 0) != -1",
    "host name": "socket.sethostname('escaped')\nreturn True",
    "shared memory that no limit counts": "return libc.shmget(0, 1 << 20, 0o1600) != -1",
    "memory files that no limit counts": "return os.memfd_create('x')",
    "raise the limit of processes": "resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))\nreturn True",
    "raise the limit of memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn True",
    "fill the disk": (
        "n = 0\n"
        "for name in 'ab':\n"
        "    with open(name, 'wb', 0) as f:\n"
        "        for _ in range(48): n += f.write(bytes(1 << 20))\n"
        "return n > 64 << 20"
    ),
    "one huge file": "os.truncate(open('sparse', 'wb').name, 1 << 40)\nreturn True",
    "a shell": "return subprocess.run(['/bin/sh', '-c', 'id'], capture_output=True)",
    "programs": "return [n for n in os.listdir('/usr/bin') if 'python' not in n]",
    "descriptors of the host": (
        "import stat\nfound = []\n"
        "for fd in range(3, 256):\n"
        "    try: found.append(stat.S_ISSOCK(os.fstat(fd).st_mode))\n"
        "    except OSError: pass\n"
        "return not all(found) or len(found) > 1"
    ),
    "the x32 calls": (
        "pid = os.fork()\n"
        "if pid == 0:\n    libc.syscall(0x40000000 | 39)\n    os._exit(7)\n"
        "return os.waitpid(pid, 0)[1] == 7 << 8"
    ),
    "read the host's memory": "return open(f'/proc/{HOST_PID}/mem', 'rb').read(1)",
    "environment of the parent": "return open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "environment from its own /proc": "return open('/proc/self/environ', 'rb').read()",
    "physical memory": "return open('/dev/mem', 'rb').read(1) or open('/dev/kmem', 'rb').read(1)",
    "kernel messages": "return open('/dev/kmsg', 'rb').read(1)",
    "the terminal by name": "return open('/dev/tty', 'w')",
    "shared memory files": "return open('/dev/shm/escaped', 'w')",
    "a shared memory block": (
        "from multiprocessing.shared_memory import SharedMemory\nreturn SharedMemory('x', True, 10)"
    ),
    "kernel settings": "return open('/proc/sys/kernel/core_pattern', 'w').write('|/bin/sh')",
    "control groups": "return os.listdir('/sys/fs/cgroup')",
    "its own user map": "return open('/proc/self/uid_map', 'w').write('0 0 1')",
    "ssh keys": "return os.listdir(HOME + '/.ssh') + os.listdir('/root')",
    "cloud metadata": "return socket.create_connection(('169.254.169.254', 80), 2)",
    "docker": "s = socket.socket(socket.AF_UNIX)\ns.connect('/var/run/docker.sock')\nreturn True",
    "UDP": "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "DNS": "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.53', 53))",
    "every other kind of socket": (
        "made = []\n"
        "for family in range(2, 46):\n"
        "    for kind in (1, 2, 3, 5):\n"
        "        try: made.append(socket.socket(family, kind))\n"
        "        except OSError: pass\n"
        "return made"
    ),
    "a server": "s = socket.socket()\ns.bind(('0.0.0.0', 0))\ns.listen()\nreturn True",
    "a datagram out of a pair": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nreturn a.sendto(b'x', '\\0' + DATAGRAMS)"
    ),
    "a datagram out of a stream": (
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)\nreturn a.sendto(b'x', '\\0' + DATAGRAMS)"
    ),
    "reconnect a stream": "socket.socketpair()[0].connect('\\0' + ABSTRACT)\nreturn True",
    "seize the parent": "return libc.ptrace(0x4206, os.getppid(), 0, 0) == 0",
    "limits of the host": "return resource.prlimit(HOST_PID, resource.RLIMIT_NOFILE, (9, 9))",
    "priority of the host": "os.setpriority(os.PRIO_PROCESS, HOST_PID, 19)\nreturn True",
    "processors of the host": "os.sched_setaffinity(HOST_PID, {0})\nreturn True",
    "signal the host by a handle": "return signal.pidfd_send_signal(os.pidfd_open(HOST_PID), 0) is None",
    "write to a file of the host": "return open(CANARY, 'w')",
    "append to a file of the host": "return open(CANARY, 'a')",
    "truncate a file of the host": "os.truncate(CANARY, 0)\nreturn True",
    "truncate while opening to read": "return os.open(CANARY, os.O_RDONLY | os.O_TRUNC)",
    "remove a file of the host": "os.unlink(CANARY)\nreturn True",
    "take a file of the host": "os.rename(CANARY, 'mine')\nreturn True",
    "put a file among the host's": "open('f', 'w').close()\nos.rename('f', CANARY + '-2')\nreturn True",
    "mode of a file of the host": (
        "mode = os.stat(CANARY).st_mode\nos.chmod(CANARY, 0o640)\nreturn os.stat(CANARY).st_mode != mode"
    ),
    "times of a file of the host": (
        "time = os.stat(CANARY).st_mtime_ns\nos.utime(CANARY)\nreturn os.stat(CANARY).st_mtime_ns != time"
    ),
    "attributes of a file of the host": "os.setxattr(CANARY, 'user.x', b'1')\nreturn True",
    "write through a symlink": "os.symlink(CANARY + '-3', 'out')\nreturn open('out', 'w')",
    "reopen a path handle": "fd = os.open(CANARY, os.O_PATH)\nreturn open(f'/proc/self/fd/{fd}').read()",
    "open beside a folder handle": (
        "fd = os.open(os.path.dirname(CANARY), os.O_PATH)\nreturn os.read(os.open('canary', os.O_RDONLY, dir_fd=fd), 9)"
    ),
    "climb out of the workspace": "return open('../' * 20 + CANARY.lstrip('/')).read()",
    "climb out of the packages": (
        "import numpy\nreturn 'pydantic' in os.listdir(os.path.dirname(numpy.__file__) + '/..')"
    ),
    "open by the C library": "return libc.open(CANARY.encode(), 0) >= 0",
    "a program through the loader": (
        "import glob\n"
        "return [subprocess.run([ld, '/usr/bin/id'], capture_output=True).stdout for ld in glob.glob('/lib64/ld-*')][0]"
    ),
    "a child that starts anew": (
        "import sys\n"
        "code = f'print(len(open({CANARY!r}).read()))'\n"
        "return subprocess.run([sys.executable, '-I', '-c', code], capture_output=True).returncode == 0"
    ),
    "a program in memory": "return os.memfd_create('x', 1)",
    "load a kernel module": "return libc.syscall(NR['finit_module'], 0, b'', 0) == 0 or ctypes.get_errno() != 1",
    "set the clock": "import time\ntime.clock_settime(0, 0)\nreturn True",
    "dump core": "return resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)",
    "lock memory": "return libc.mlockall(3) == 0",
    "what the host types": "import sys\nreturn os.read(0, 1) or sys.stdin.read(1)",
    "gain by a set-user-id file": (
        "found = [p for p in ('/usr/bin/su', '/bin/mount', '/usr/bin/sudo') if os.path.exists(p)]\n"
        "return [open(p, 'rb') for p in found]"
    ),
}
SHARED_ATTEMPTS = {
    "signal the process that watches": "os.kill(os.getppid(), 0)\nreturn True",
    "signal the process that watches by its group": "os.killpg(os.getpgid(os.getppid()), 0)\nreturn True",
    "signal the first process of the host": "os.kill(1, 0)\nreturn True",
    "limits of the process that watches": "return resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (9, 9))",
    "watch the host's files": "return libc.inotify_init1(0) >= 0",
    "the host's semaphores": "return libc.semget(1, 1, 0o1666) >= 0",
    "the host's message queues": "return libc.msgget(1, 0o1666) >= 0",
    "the host's shared memory": "return libc.shmat(0, 0, 0) != -1 or ctypes.get_errno() != 1",
    "any socket at all": "return socket.socket(socket.AF_UNIX)",
    "a seqpacket pair": "return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
    "list the packages beside": "return os.listdir(SITE)",
    "list the root": "return os.listdir('/')",
    "list the folder above": "return os.listdir('..')",
    "write to the packages": "import numpy\nreturn open(os.path.dirname(numpy.__file__) + '/escaped.py', 'w')",
    "the processes of the host": "return [n for n in os.listdir('/proc') if n.isdigit()]",
}
"""Where namespaces are shared with the host (level 2): elsewhere these reach nothing, or what is the sandbox's own."""
