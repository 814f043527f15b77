//! Debug information: the file that belongs to a stripped one, and its sections. The only place where section headers are read, since debug
//! information is in no segment.

use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, SymbolKind};

use super::error::{ElfError, Result};
use super::header;
use super::source::Source;

/// Largest file of debug information that is read, and largest section in it once it is unpacked.
const MOST_BYTES: u64 = 1 << 30;
/// Where distributions keep files of debug information.
pub const STORE: &str = "/usr/lib/debug";

/// A file with debug information or a symbol table, 64-bit ELF.
#[derive(Debug)]
pub struct DebugFile {
    file: String,
    bytes: Vec<u8>,
    /// True for little-endian files.
    pub little_endian: bool,
    /// GNU build-id as lower-case hex.
    pub build_id: Option<String>,
}

impl DebugFile {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self> {
        let source = Source::open(path)?;
        if source.len() > MOST_BYTES {
            return Err(source.error("file", None, format!("{} bytes, where {MOST_BYTES} are read at most", source.len())));
        }
        let header = header::read(&source)?;
        if header.word_size() != 8 {
            return Err(source.error("EI_CLASS", None, "debug information of 32-bit files is not read"));
        }
        let bytes = source.read("file", 0, source.len())?;
        let mut read = Self { file: source.name().to_owned(), bytes, little_endian: header.endian == object::Endianness::Little, build_id: None };
        read.build_id = read.parse()?.build_id().map_err(|error| read.broken(".note.gnu.build-id", &error))?.map(hex);
        Ok(read)
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The unpacked bytes of a section by its name; empty where there is none.
    pub fn section(&self, name: &str) -> Result<Vec<u8>> {
        let image = self.parse()?;
        let Some(section) = image.section_by_name(name) else { return Ok(Vec::new()) };
        let packed = section.compressed_data().map_err(|error| self.broken(name, &error))?;
        if packed.uncompressed_size > MOST_BYTES {
            let problem = format!("unpacks to {} bytes, where {MOST_BYTES} are read at most", packed.uncompressed_size);
            return Err(self.error(name, problem));
        }
        Ok(packed.decompress().map_err(|error| self.broken(name, &error))?.into_owned())
    }

    /// True if there is a symbol table or DWARF in it: stripped files have neither.
    pub fn has_names(&self) -> Result<bool> {
        let image = self.parse()?;
        let table = image.symbol_table().is_some_and(|table| table.symbols().next().is_some());
        Ok(table || image.section_by_name(".debug_info").is_some() || image.section_by_name(".zdebug_info").is_some())
    }

    /// Functions of `.symtab`: address and name.
    pub fn functions(&self) -> Result<Vec<(u64, String)>> {
        let image = self.parse()?;
        let Some(table) = image.symbol_table() else { return Ok(Vec::new()) };
        let functions = table.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        Ok(functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned()))).collect())
    }

    /// The name in `.gnu_debuglink`.
    pub fn link(&self) -> Result<Option<String>> {
        let link = self.parse()?.gnu_debuglink().map_err(|error| self.broken(".gnu_debuglink", &error))?;
        Ok(link.map(|(name, _)| String::from_utf8_lossy(name).into_owned()))
    }

    /// An error about a section of this file.
    pub fn error(&self, field: &str, problem: impl Into<String>) -> ElfError {
        ElfError { file: self.file.clone(), field: field.into(), offset: None, problem: problem.into() }
    }

    fn broken(&self, field: &str, error: &object::Error) -> ElfError {
        self.error(field, error.to_string())
    }

    fn parse(&self) -> Result<ElfFile64<'_>> {
        ElfFile64::parse(self.bytes.as_slice()).map_err(|error| self.broken("e_shoff", &error))
    }
}

/// Where debug information is looked for that is not in the file itself, in order: in the store by build-id, then by the name in
/// `.gnu_debuglink` in the file's own folder, in `.debug` below it and in the store (GDB's manual, "Debugging Information in Separate Files").
pub fn places(own: &Path, build_id: Option<&str>, link: Option<&str>, store: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(id) = build_id.filter(|id| id.len() > 2) {
        places.push(store.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..])));
    }
    // A link with a path would lead out of the three folders.
    let link = link.filter(|link| !link.contains('/'));
    if let (Some(link), Some(folder)) = (link, own.parent()) {
        places.extend([folder.join(link), folder.join(".debug").join(link)]);
        places.extend(folder.canonicalize().ok().and_then(|folder| Some(store.join(folder.strip_prefix("/").ok()?).join(link))));
    }
    places
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
