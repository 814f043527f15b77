"""Small hand tools for broken 64-bit little-endian ELF files (measurements only)."""
import struct

TAGS = dict(NULL=0, NEEDED=1, HASH=4, STRTAB=5, SYMTAB=6, INIT=12, SONAME=14, RPATH=15, SYMBOLIC=16, DEBUG=21, TEXTREL=22,
            RUNPATH=29, FLAGS=30, GNU_HASH=0x6ffffef5, VERSYM=0x6ffffff0, VERNEED=0x6ffffffe, VERNEEDNUM=0x6fffffff,
            VERDEF=0x6ffffffc, FLAGS_1=0x6ffffffb, AUXILIARY=0x7ffffffd, FILTER=0x7fffffff, AUDIT=0x6ffffefc,
            DEPAUDIT=0x6ffffefb, RELACOUNT=0x6ffffff9)


class Elf:
    def __init__(self, data):
        self.d = bytearray(data)

    def get(self, fmt, off):
        return struct.unpack_from("<" + fmt, self.d, off)

    def put(self, fmt, off, *v):
        struct.pack_into("<" + fmt, self.d, off, *v)
        return self

    @property
    def phoff(self):
        return self.get("Q", 32)[0]

    @property
    def phnum(self):
        return self.get("H", 56)[0]

    def ph(self, i):
        """type flags offset vaddr paddr filesz memsz align"""
        return list(self.get("IIQQQQQQ", self.phoff + 56 * i))

    def set_ph(self, i, v):
        return self.put("IIQQQQQQ", self.phoff + 56 * i, *v)

    def phs(self, kind):
        return [i for i in range(self.phnum) if self.ph(i)[0] == kind]

    def sections(self):
        shoff, = self.get("Q", 40)
        shnum, shstr = self.get("HH", 60)
        heads = [self.get("IIQQQQIIQQ", shoff + 64 * i) for i in range(shnum)]
        names = heads[shstr]
        out = {}
        for h in heads:
            s = names[4] + h[0]
            out[bytes(self.d[s:self.d.index(0, s)]).decode()] = h
        return out

    def dyn(self):
        off = self.ph(self.phs(2)[0])[2]
        out = []
        while True:
            t, v = self.get("QQ", off)
            out.append((off, t, v))
            if t == 0:
                return out
            off += 16

    def dyn_find(self, tag):
        tag = TAGS.get(tag, tag)
        return [(o, v) for o, t, v in self.dyn() if t == tag]

    def dyn_set(self, tag, value=None, new_tag=None):
        for o, v in self.dyn_find(tag):
            self.put("QQ", o, TAGS.get(new_tag, new_tag) if new_tag is not None else TAGS.get(tag, tag),
                     v if value is None else value)
        return self

    def dyn_add(self, tag, value):
        """uses a spare DT_NULL (ld leaves five)"""
        o = [x for x in self.dyn() if x[1] == 0][0][0]
        self.put("QQQQ", o, TAGS.get(tag, tag), value, 0, 0)
        return self

    def dynstr(self, text):
        """offset in .dynstr of a string that is already there"""
        s = self.sections()[".dynstr"]
        b = bytes(self.d[s[4]:s[4] + s[5]])
        i = b.index(b"\0" + text.encode() + b"\0") + 1
        return i

    def symbols(self):
        secs = self.sections()
        s, st = secs[".dynsym"], secs[".dynstr"]
        for i in range(s[5] // 24):
            off = s[4] + 24 * i
            n, = self.get("I", off)
            a = st[4] + n
            yield i, off, bytes(self.d[a:self.d.index(0, a)]).decode()

    def sym(self, name):
        return [(i, off) for i, off, n in self.symbols() if n == name][0]

    def set_sym(self, name, bind=None, typ=None, vis=None, shndx=None, value=None, size=None):
        _, o = self.sym(name)
        info, other, ndx, val, sz = self.get("BBHQQ", o + 4)
        b, t = info >> 4, info & 15
        self.put("BBHQQ", o + 4, (bind if bind is not None else b) << 4 | (typ if typ is not None else t),
                 vis if vis is not None else other, shndx if shndx is not None else ndx,
                 value if value is not None else val, size if size is not None else sz)
        return self

    def versym(self, name):
        i, _ = self.sym(name)
        o = self.sections()[".gnu.version"][4] + 2 * i
        return self.get("H", o)[0], o

    def vernaux(self):
        """(offset, file offset of verneed, name)"""
        s = self.sections()
        base, st = s[".gnu.version_r"][4], s[".dynstr"][4]
        o = base
        while True:
            _, cnt, _, aux, nxt = self.get("HHIII", o)
            a = o + aux
            for _ in range(cnt):
                _, _, _, n, an = self.get("IHHII", a)
                x = st + n
                yield a, o, bytes(self.d[x:self.d.index(0, x)]).decode()
                a += an
            if not nxt:
                return
            o += nxt


def elfhash(s):
    h = 0
    for c in s.encode():
        h = (h << 4) + c
        g = h & 0xf0000000
        if g:
            h ^= g >> 24
        h &= ~g & 0xffffffff
    return h
