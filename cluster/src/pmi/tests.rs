use std::io::Cursor;

use proptest::prelude::*;

use super::*;

/// A stream that answers what it was given and remembers what it is told.
#[derive(Debug)]
struct Script {
    answers: Cursor<Vec<u8>>,
    told: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.answers.read(out)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.told.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn script(answers: &[&str]) -> Script {
    let framed = answers.iter().map(|answer| match answer.ends_with('\n') {
        true => (*answer).to_owned(),
        false => format!("{:<6}{answer}", answer.len()),
    });
    Script {
        answers: Cursor::new(framed.collect::<String>().into_bytes()),
        told: Vec::new(),
    }
}

const BEGIN: [&str; 2] = [
    "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
    "cmd=fullinit-response;rc=0;pmi-version=2;rank=1;size=3;appnum=-1;",
];

#[test]
fn a_rendez_vous_is_init_put_fence_get_finalize() {
    let mut answers = BEGIN.to_vec();
    answers.extend([
        "cmd=kvs-put-response;rc=0;",
        "cmd=kvs-fence-response;rc=0;",
        "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b=c;",
        "cmd=finalize-response;rc=0;",
    ]);
    let mut script = script(&answers);
    let mut client = Client::init(&mut script, "12.0", 1).unwrap();
    assert_eq!((client.rank(), client.size()), (1, 3));
    client.put("at", "x;y").unwrap();
    client.fence().unwrap();
    assert_eq!(client.get("at").unwrap(), "a;b=c");
    client.finalize().unwrap();
    let told = String::from_utf8(script.told).unwrap();
    let (first, rest) = told.split_once('\n').unwrap();
    assert_eq!(first, "cmd=init pmi_version=2 pmi_subversion=0");
    assert!(rest.starts_with("    52cmd=fullinit;"), "{rest}");
    let framed = [
        "cmd=fullinit;pmijobid=12.0;pmirank=1;threaded=FALSE;",
        "cmd=kvs-put;key=at;value=x;;y;",
        "cmd=kvs-fence;",
        "cmd=kvs-get;jobid=12.0;key=at;srcid=-1;",
        "cmd=finalize;",
    ]
    .map(|text| format!("{:>6}{text}", text.len()));
    assert_eq!(rest, framed.concat());
}

#[test]
fn refusals_are_told_with_their_words() {
    let mut answers = BEGIN.to_vec();
    answers.push("cmd=kvs-fence-response;rc=14;errmsg=no room;");
    let mut client = Client::init(script(&answers), "1", 0).unwrap();
    let error = client.fence().unwrap_err().to_string();
    assert_eq!(error, "Slurm's PMI-2 refuses kvs-fence: no room");
    for value in ["", "a\nb", &"x".repeat(1024)] {
        assert!(matches!(client.put("k", value), Err(PmiError::Value)));
    }
}

#[test]
fn what_is_no_pmi_2_is_refused() {
    for answers in [
        &["cmd=response_to_init pmi_version=1 rc=0\n"][..],
        &["hello\n"],
        &[BEGIN[0], "cmd=other-response;rc=0;"],
        &[BEGIN[0], "cmd=fullinit-response;rc=0;size=3;"],
        &[BEGIN[0], "cmd=fullinit-response;rc"],
        &[],
    ] {
        Client::init(script(answers), "1", 0).unwrap_err();
    }
    for text in ["999999x", "-1    x", "      "] {
        read_message(&mut Cursor::new(text)).unwrap_err();
    }
}

proptest! {
    #[test]
    fn parse_inverts_text(
        command in "[a-z-]{1,12}",
        pairs in prop::collection::btree_map("[a-z]{1,4}[0-9]", "[ -~]{0,40}", 0..5)
    ) {
        let message = Message { command, pairs };
        prop_assert_eq!(Message::parse(message.text().as_bytes()).unwrap(), message);
    }

    #[test]
    fn any_bytes_are_a_message_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_message(&mut Cursor::new(bytes));
    }
}
