//! The memory of another process, by a descriptor of its `/proc/self/mem` that it has sent.
//!
//! Such a descriptor needs no rights over the process, works across user ids, cannot come to mean another
//! process, and reads nothing once that has ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{
    CWD, FileType, OFlags, PROC_SUPER_MAGIC, fcntl_getfl, fstat, fstatfs, readlinkat,
};
use rustix::io::{Errno, pread, pwrite};

/// Memory of a process.
#[derive(Debug)]
pub struct ProcessMemory(OwnedFd);

impl ProcessMemory {
    /// By a descriptor, open for reading and writing.
    ///
    /// # Errors
    /// `InvalidInput` if it is of something else than a process's memory: reading that could block, or mean
    /// something.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let refuse = |why: &str| {
            let text = format!("the descriptor is not a process's memory: {why}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        };
        if fstatfs(&descriptor)?.f_type != PROC_SUPER_MAGIC {
            return refuse("it is not a file of /proc");
        }
        if FileType::from_raw_mode(fstat(&descriptor)?.st_mode) != FileType::RegularFile {
            return refuse("it is not a plain file");
        }
        if fcntl_getfl(&descriptor)? & OFlags::RWMODE != OFlags::RDWR {
            return refuse("it is not open for reading and writing");
        }
        let link = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
        let path = readlinkat(CWD, link, Vec::new())?;
        match path.to_bytes().ends_with(b"/mem") {
            true => Ok(Self(descriptor)),
            false => refuse("it is another file of /proc"),
        }
    }

    /// Fills `out` from `address` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the process has ended; what the system refuses, such as memory that is not mapped.
    pub fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = at(address, done)?;
            match pread(&self.0, &mut out[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes `bytes` from `address` on.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = at(address, done)?;
            match pwrite(&self.0, &bytes[done..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn at(address: u64, done: usize) -> io::Result<u64> {
    let at = address.checked_add(wire::convert::u64_of(done));
    at.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    fn open(path: &str, write: bool) -> OwnedFd {
        let file = File::options().read(true).write(write).open(path);
        file.unwrap().into()
    }

    #[test]
    fn memory_is_read_and_written_where_it_is_mapped() {
        let memory = ProcessMemory::new(open("/proc/self/mem", true)).unwrap();
        let place = vec![0u8; 8192].leak();
        let address = wire::convert::u64_of(place.as_ptr().addr());
        memory.write(address + 100, b"written").unwrap();
        let mut read = [0; 7];
        memory.read(address + 100, &mut read).unwrap();
        assert_eq!(&read, b"written");
        for unmapped in [0, 8, u64::MAX - 2, 1 << 63] {
            assert!(memory.read(unmapped, &mut read).is_err(), "{unmapped:#x}");
            assert!(memory.write(unmapped, &read).is_err(), "{unmapped:#x}");
        }
    }

    #[test]
    fn memory_of_a_process_that_has_ended_is_gone() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It has its own memory once it answers.
        let mut answer = [0; 1];
        io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut answer).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let first = maps.split('-').next().unwrap();
        let address = u64::from_str_radix(first, 16).unwrap();
        let memory = open(&format!("/proc/{}/mem", child.id()), true);
        let memory = ProcessMemory::new(memory).unwrap();
        let mut magic = [0; 4];
        memory.read(address, &mut magic).unwrap();
        assert_eq!(&magic, b"\x7fELF");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(memory.read(address, &mut magic).is_err());
        assert!(memory.write(address, &magic).is_err());
    }

    #[test]
    fn a_descriptor_of_something_else_is_refused() {
        for (path, write) in [
            ("/dev/null", true),
            ("/dev/zero", true),
            ("/proc/self/mem", false),
            ("/proc/self/status", false),
            ("/proc/self/comm", true),
            ("/proc/self", false),
            ("/", false),
        ] {
            assert!(ProcessMemory::new(open(path, write)).is_err(), "{path}");
        }
        let (reader, writer) = io::pipe().unwrap();
        assert!(ProcessMemory::new(reader.into()).is_err());
        assert!(ProcessMemory::new(writer.into()).is_err());
        let plain: OwnedFd = tempfile::tempfile().unwrap().into();
        assert!(ProcessMemory::new(plain).is_err());
    }
}
