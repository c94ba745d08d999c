//! Looks through a pickle without running it: what it would import, and numbers that stand under known keys.
//!
//! A pickle is a program for a small stack machine. Here the machine moves only texts and whole numbers, calls
//! nothing and builds nothing; every import is noted by the names that it would look up. What is found is what
//! an honest file says: a hostile one may state any number, and is told by its imports. Source of the
//! opcodes: `pickletools` of Python 3.14, protocols 0 to 5.

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::sync::Arc;

/// What was found in one or more pickles.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// What would be imported, as `module.name`; `?` where the name is computed while it runs.
    pub(super) imports: BTreeSet<String>,
    /// Entries under the keys that were asked for, grouped as they are set in one object.
    pub(super) groups: Vec<Group>,
    /// Set when a look ended before the pickle did, so that there may be more.
    pub(super) is_partial: bool,
}

/// Entries that are set in one object.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Group(Vec<(&'static str, Value)>);

impl Group {
    /// Returns the value under a key; of two the last, which is the one that counts.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| value)
    }
}

/// A value that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A text of moderate length.
    Text(Arc<str>),
    /// A whole number.
    Number(i64),
    /// Anything else.
    Other,
}

impl Value {
    /// Returns it as a number that is not negative.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

/// Why looking through a pickle stopped before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// The file ends in the middle.
    #[error("it is cut short")]
    Short,
    /// No opcode of any protocol.
    #[error("byte {0:#04x} is no opcode")]
    Foreign(u8),
    /// More than is worth keeping in memory.
    #[error("it is too large to be looked through")]
    TooLarge,
    /// Reading failed.
    #[error("reading stopped")]
    Read(#[from] io::Error),
}

/// Values on the stack and in the memo together; the largest honest pickles have some hundred thousand.
const MAX_VALUES: usize = 1 << 21;
/// Bytes of all texts that are kept.
const MAX_TEXT: usize = 64 << 20;
/// Bytes of one text that is kept.
const MAX_ONE_TEXT: u64 = 4096;
/// Different imports that are kept.
const MAX_IMPORTS: usize = 1 << 14;
/// Entries that are kept.
const MAX_ENTRIES: usize = 1 << 20;

/// Looks through one pickle up to its end mark, and notes the entries under `wanted` keys.
pub(super) fn look(file: &mut impl BufRead, wanted: &[&'static str], found: &mut Found) -> Result<(), Stop> {
    let mut machine = Machine {
        file,
        wanted,
        found,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        text: 0,
        entries: 0,
    };
    let end = machine.run();
    found.is_partial |= end.is_err();
    end
}

struct Machine<'a, R> {
    file: &'a mut R,
    wanted: &'a [&'static str],
    found: &'a mut Found,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Value>,
    text: usize,
    entries: usize,
}

impl<R: BufRead> Machine<'_, R> {
    fn run(&mut self) -> Result<(), Stop> {
        loop {
            let opcode = self.number(1)? as u8;
            match opcode {
                b'.' => return Ok(()),
                b'(' => {
                    self.has_room()?;
                    self.marks.push(self.stack.len());
                }
                b'0' if self.marks.last() == Some(&self.stack.len()) => {
                    self.marks.pop();
                }
                b'0' | b'a' | b'b' => drop(self.stack.pop()),
                b'1' | b'e' | 0x90 => drop(self.pop_mark()),
                b'2' => {
                    let top = self.top();
                    self.push(top)?;
                }
                b'N' | b'}' | b']' | b')' | 0x88 | 0x89 | 0x8f | 0x97 => self.push(Value::Other)?,
                b'l' | b't' | b'o' | 0x91 => {
                    self.pop_mark();
                    self.push(Value::Other)?;
                }
                b'Q' | 0x85 => self.replace(1)?,
                b'R' | 0x81 | 0x86 => self.replace(2)?,
                0x87 | 0x92 => self.replace(3)?,
                0x98 => {}
                0x80 => drop(self.number(1)?),
                0x95 => drop(self.number(8)?),

                b'F' | b'P' => {
                    self.line()?;
                    self.push(Value::Other)?;
                }
                b'I' | b'L' => {
                    let line = self.line()?;
                    let number = line.trim_end_matches('L').parse().map_or(Value::Other, Value::Number);
                    self.push(number)?;
                }
                b'J' => {
                    let number = self.number(4)? as u32;
                    self.push(Value::Number(number.cast_signed().into()))?;
                }
                b'K' => self.push_number(1)?,
                b'M' => self.push_number(2)?,
                b'G' => {
                    self.skip(8)?;
                    self.push(Value::Other)?;
                }
                0x8a => self.long(1)?,
                0x8b => self.long(4)?,
                b'S' | b'V' => {
                    let line = self.line()?;
                    let text = line.trim_matches(['\'', '"']);
                    self.push_text(text)?;
                }
                b'U' | 0x8c => self.sized_text(1)?,
                b'T' | b'X' => self.sized_text(4)?,
                0x8d => self.sized_text(8)?,
                b'C' => self.sized_bytes(1)?,
                b'B' => self.sized_bytes(4)?,
                0x8e | 0x96 => self.sized_bytes(8)?,

                b'c' => {
                    self.import_lines()?;
                    self.push(Value::Other)?;
                }
                b'i' => {
                    self.import_lines()?;
                    self.pop_mark();
                    self.push(Value::Other)?;
                }
                0x93 => {
                    let (name, module) = (self.stack.pop(), self.stack.pop());
                    match (module, name) {
                        (Some(Value::Text(module)), Some(Value::Text(name))) => {
                            self.import(&module, &name)?;
                        }
                        _ => self.import("?", "?")?,
                    }
                    self.push(Value::Other)?;
                }
                // Codes of a table that a program fills; what stands there is not known.
                0x82..=0x84 => {
                    let code = self.number(1 << (opcode - 0x82))?;
                    self.import("copyreg.extension", &code.to_string())?;
                    self.push(Value::Other)?;
                }

                b'g' => {
                    let index = self.line()?.parse().unwrap_or(usize::MAX);
                    self.get(index)?;
                }
                b'h' => {
                    let index = self.number(1)? as usize;
                    self.get(index)?;
                }
                b'j' => {
                    let index = self.number(4)? as usize;
                    self.get(index)?;
                }
                b'p' => {
                    let index = self.line()?.parse().unwrap_or(usize::MAX);
                    self.put(index)?;
                }
                b'q' => {
                    let index = self.number(1)? as usize;
                    self.put(index)?;
                }
                b'r' => {
                    let index = self.number(4)? as usize;
                    self.put(index)?;
                }
                0x94 => self.put(self.memo.len())?,

                b's' => {
                    let at = self.stack.len().saturating_sub(2);
                    let items = self.stack.split_off(at);
                    self.note(&items)?;
                }
                b'u' => {
                    let items = self.pop_mark();
                    self.note(&items)?;
                }
                b'd' => {
                    let items = self.pop_mark();
                    self.note(&items)?;
                    self.push(Value::Other)?;
                }
                other => return Err(Stop::Foreign(other)),
            }
        }
    }

    /// Notes the entries that are asked for among keys and values in turn.
    fn note(&mut self, items: &[Value]) -> Result<(), Stop> {
        let mut group = Group::default();
        for pair in items.chunks_exact(2) {
            if let Value::Text(key) = &pair[0]
                && let Some(key) = self.wanted.iter().find(|wanted| **wanted == &**key)
            {
                self.entries += 1;
                group.0.push((key, pair[1].clone()));
            }
        }
        if group.0.is_empty() {
            return Ok(());
        }
        if self.entries > MAX_ENTRIES {
            return Err(Stop::TooLarge);
        }
        self.found.groups.push(group);
        Ok(())
    }

    fn import(&mut self, module: &str, name: &str) -> Result<(), Stop> {
        if self.found.imports.len() >= MAX_IMPORTS {
            return Err(Stop::TooLarge);
        }
        self.found.imports.insert(format!("{module}.{name}"));
        Ok(())
    }

    fn import_lines(&mut self) -> Result<(), Stop> {
        let (module, name) = (self.line()?, self.line()?);
        self.import(&module, &name)
    }

    fn top(&self) -> Value {
        self.stack.last().cloned().unwrap_or(Value::Other)
    }

    fn push(&mut self, value: Value) -> Result<(), Stop> {
        self.has_room()?;
        self.stack.push(value);
        Ok(())
    }

    const fn has_room(&self) -> Result<(), Stop> {
        if self.stack.len() + self.marks.len() + self.memo.len() < MAX_VALUES {
            Ok(())
        } else {
            Err(Stop::TooLarge)
        }
    }

    /// Takes some values off the stack and puts one there that is not looked at.
    fn replace(&mut self, count: usize) -> Result<(), Stop> {
        self.stack.truncate(self.stack.len().saturating_sub(count));
        self.push(Value::Other)
    }

    fn pop_mark(&mut self) -> Vec<Value> {
        let at = self.marks.pop().unwrap_or(0).min(self.stack.len());
        self.stack.split_off(at)
    }

    fn get(&mut self, index: usize) -> Result<(), Stop> {
        let value = self.memo.get(index).cloned().unwrap_or(Value::Other);
        self.push(value)
    }

    fn put(&mut self, index: usize) -> Result<(), Stop> {
        if index >= MAX_VALUES {
            return Err(Stop::TooLarge);
        }
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Value::Other);
        }
        self.memo[index] = self.top();
        Ok(())
    }

    fn push_number(&mut self, size: usize) -> Result<(), Stop> {
        let number = self.number(size)?;
        self.push(Value::Number(number.cast_signed()))
    }

    fn push_text(&mut self, text: &str) -> Result<(), Stop> {
        self.text += text.len();
        if self.text > MAX_TEXT {
            return Err(Stop::TooLarge);
        }
        self.push(Value::Text(text.into()))
    }

    fn sized_text(&mut self, size: usize) -> Result<(), Stop> {
        let length = self.number(size)?;
        if length > MAX_ONE_TEXT {
            self.skip(length)?;
            return self.push(Value::Other);
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.push_text(text),
            Err(_) => self.push(Value::Other),
        }
    }

    fn sized_bytes(&mut self, size: usize) -> Result<(), Stop> {
        let length = self.number(size)?;
        self.skip(length)?;
        self.push(Value::Other)
    }

    /// Reads a whole number of any length; one of more than 64 bits is not looked at.
    fn long(&mut self, size: usize) -> Result<(), Stop> {
        let length = self.number(size)?;
        if length > 8 {
            self.skip(length)?;
            return self.push(Value::Other);
        }
        let number = self.number(length as usize)?;
        // The highest bit of the last byte is the sign.
        let unused = 64 - 8 * length as u32;
        let number = if length == 0 { 0 } else { (number << unused).cast_signed() >> unused };
        self.push(Value::Number(number))
    }

    /// Reads up to the end of the line; what is longer than any name is an error.
    fn line(&mut self) -> Result<String, Stop> {
        let mut line = Vec::new();
        loop {
            let byte = self.number(1)? as u8;
            if byte == b'\n' {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if line.len() as u64 >= MAX_ONE_TEXT {
                return Err(Stop::TooLarge);
            }
            line.push(byte);
        }
    }

    /// Reads up to eight bytes as a number, lowest first.
    fn number(&mut self, size: usize) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes[..size])?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn fill(&mut self, part: &mut [u8]) -> Result<(), Stop> {
        self.file.read_exact(part).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::Short,
            _ => Stop::Read(error),
        })
    }

    fn skip(&mut self, mut length: u64) -> Result<(), Stop> {
        while length > 0 {
            let ready = (self.file.fill_buf()?.len() as u64).min(length);
            if ready == 0 {
                return Err(Stop::Short);
            }
            self.file.consume(ready as usize);
            length -= ready;
        }
        Ok(())
    }
}

/// Returns whether an import is of those that reach the machine, and that no weights have a use for.
pub(super) fn is_harmful(import: &str) -> bool {
    const MODULES: [&str; 24] = [
        "?",
        "asyncio",
        "bdb",
        "builtins",
        "__builtin__",
        "code",
        "commands",
        "ctypes",
        "importlib",
        "multiprocessing",
        "nt",
        "operator",
        "os",
        "pdb",
        "pip",
        "posix",
        "pty",
        "requests",
        "runpy",
        "shutil",
        "socket",
        "subprocess",
        "sys",
        "webbrowser",
    ];
    let root = import.split('.').next().unwrap_or_default();
    !is_known(import) && (MODULES.contains(&root) || import.starts_with("torch."))
}

/// Returns whether an import is one of those that tensors and plain containers need, and that call nothing else.
///
/// Whole modules are not trusted: `torch.hub.load` fetches code, and `torch.storage._load_from_bytes` reads
/// another pickle.
pub(super) fn is_known(import: &str) -> bool {
    const EXACT: [&str; 47] = [
        "__builtin__.bytearray",
        "__builtin__.complex",
        "__builtin__.frozenset",
        "__builtin__.set",
        "__builtin__.slice",
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.frozenset",
        "builtins.set",
        "builtins.slice",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "collections.deque",
        "datetime.datetime",
        "datetime.timedelta",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.dtype",
        "numpy.ndarray",
        "pathlib.Path",
        "pathlib.PosixPath",
        "torch.Size",
        "torch.Tensor",
        "torch._tensor._rebuild_from_type_v2",
        "torch._utils._rebuild_device_tensor_from_numpy",
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._utils._rebuild_nested_tensor",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_qtensor",
        "torch._utils._rebuild_sparse_tensor",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_wrapper_subclass",
        "torch.device",
        "torch.distributed.checkpoint.filesystem._StorageInfo",
        "torch.jit._pickle.restore_type_tag",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch.storage._TypedStorage",
    ];
    const DTYPES: [&str; 9] = ["float", "bfloat", "int", "uint", "complex", "bool", "qint", "quint", "half"];
    let Some((module, name)) = import.rsplit_once('.') else { return false };
    EXACT.contains(&import)
        || match module {
            "torch" => {
                let word = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
                let word = if name.starts_with("float8_") { "float" } else { word };
                name.ends_with("Storage") || DTYPES.contains(&word) || word == "double" || word == "long"
            }
            "numpy.dtypes" => name.ends_with("DType"),
            "torch.distributed.checkpoint.metadata" => !name.contains('.'),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(bytes: &[u8], wanted: &[&'static str]) -> Result<Found, Stop> {
        let mut found = Found::default();
        look(&mut &bytes[..], wanted, &mut found).map(|()| found)
    }

    fn imports(bytes: &[u8]) -> Vec<String> {
        looked(bytes, &[]).unwrap().imports.into_iter().collect()
    }

    #[test]
    fn imports_are_named_in_every_protocol() {
        assert_eq!(imports(b"cos\nsystem\n(S'id'\ntR."), ["os.system"]);
        assert_eq!(imports(b"(S'id'\nios\nsystem\n."), ["os.system"]);
        assert_eq!(imports(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."), ["posix.system"]);
        // The names come out of the memo, and what lies between has gone.
        let memo = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94NN000h\x00h\x01\x93.";
        assert_eq!(imports(memo), ["posix.system"]);
        // A name that a call computes is not known before it runs.
        assert_eq!(imports(b"\x80\x04\x8c\x02os)R\x8c\x06system\x93."), ["?.?"]);
        assert_eq!(
            imports(b"\x80\x02\x82\x07\x83\x07\x01."),
            ["copyreg.extension.263", "copyreg.extension.7"]
        );
        assert!(imports(b"\x80\x04}\x94(\x8c\x01aK\x01u.").is_empty());
    }

    #[test]
    fn entries_under_known_keys_are_read_in_their_groups() {
        let bytes =
            b"\x80\x02}(X\x05\x00\x00\x00epochK\x03X\x0b\x00\x00\x00global_stepM\x00\x10X\x01\x00\x00\x00aNu\
            }(X\x05\x00\x00\x00epoch\x8a\x01\xffu.";
        let found = looked(bytes, &["epoch", "global_step"]).unwrap();
        let epochs: Vec<_> = found.groups.iter().map(|group| group.get("epoch").cloned().unwrap()).collect();
        assert_eq!(epochs, [Value::Number(3), Value::Number(-1)]);
        assert_eq!(found.groups[0].get("global_step").unwrap().count(), Some(4096));
        assert_eq!(found.groups[1].get("epoch").unwrap().count(), None);
        assert!(found.groups[0].get("a").is_none());
        let set = b"}X\x05\x00\x00\x00epochJ\xff\xff\xff\x7fs.";
        assert_eq!(
            looked(set, &["epoch"]).unwrap().groups[0].get("epoch").unwrap().count(),
            Some(0x7fff_ffff)
        );
    }

    #[test]
    fn hostile_pickles_end_the_look_and_nothing_else() {
        for (bytes, why) in [
            (&b""[..], "cut short"),
            (b"\x80\x04\x8c\x05pos", "cut short"),
            (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.", "cut short"),
            (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.", "cut short"),
            (b"\xff", "0xff is no opcode"),
            (b"Nr\xff\xff\xff\xff.", "too large"),
            (b"Np99999999999999999999\n.", "too large"),
        ] {
            let error = looked(bytes, &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{bytes:?}: {error}");
        }
        let endless: Vec<u8> = b"N".repeat(MAX_VALUES + 1);
        assert!(matches!(looked(&endless, &[]), Err(Stop::TooLarge)));
        let marks: Vec<u8> = b"(".repeat(10).into_iter().chain(*b"NNtu0101R\x93.").collect();
        assert!(looked(&marks, &["a"]).is_ok(), "a stack that is too short is no error of ours");
    }

    #[test]
    fn only_what_tensors_need_is_known() {
        for known in [
            "torch.FloatStorage",
            "torch.BFloat16Storage",
            "torch.float32",
            "torch.bfloat16",
            "torch.float8_e4m3fn",
            "torch.quint8",
            "torch._utils._rebuild_tensor_v2",
            "collections.OrderedDict",
            "numpy.dtypes.UInt32DType",
            "torch.distributed.checkpoint.metadata.Metadata",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in [
            "os.system",
            "posix.system",
            "builtins.eval",
            "builtins.getattr",
            "torch.hub.load",
            "torch.load",
            "torch.storage._load_from_bytes",
            "torch.compile",
            "numpy.load",
            "collections.abc.Callable",
            "transformers.training_args.TrainingArguments",
            "?.?",
            "eval",
        ] {
            assert!(!is_known(unknown), "{unknown}");
        }
        for harmful in ["os.system", "builtins.eval", "?.?", "torch.hub.load", "subprocess.Popen"] {
            assert!(is_harmful(harmful), "{harmful}");
        }
        for other in ["builtins.set", "transformers.training_args.TrainingArguments", "torch.float32"] {
            assert!(!is_harmful(other), "{other}");
        }
    }
}
