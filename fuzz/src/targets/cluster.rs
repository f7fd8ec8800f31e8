//! What Slurm says to a process of a job, and what comes over TCP from other machines.

use std::io::{self, Read, Write};

use cluster::message::{Hello, Message, Order};
use cluster::placement::Placement;
use cluster::session::{
    ANSWER_BYTES, GREETING_BYTES, Initiator, LENGTH_BYTES, Opener, PROOF_BYTES, Responder, Secret,
};
use cluster::{pmi, slurm};

/// A stream that says what the input holds, and takes everything.
#[derive(Debug)]
struct Script<'a>(&'a [u8]);

impl Read for Script<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first byte says who speaks, the others what.
pub(crate) fn cluster(input: &[u8]) {
    let Some((&who, bytes)) = input.split_first() else {
        return;
    };
    match who % 7 {
        0 => launcher(bytes),
        1 => message(bytes),
        2 => supervisor(bytes),
        3 => agent(bytes),
        4 => frame(bytes),
        5 => {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(cpus) = slurm::cpus(&text) {
                assert!(!cpus.is_empty() && cpus.iter().all(|&cpus| cpus > 0));
            }
        }
        _ => placement(&String::from_utf8_lossy(bytes)),
    }
}

/// Slurm's daemon, to a process that asks for all that there is.
fn launcher(bytes: &[u8]) {
    if let Ok(text) = pmi::read_message(&mut Script(bytes)) {
        let again = pmi::Message::parse(text.text().as_bytes());
        assert_eq!(again.expect("its own text"), text);
    }
    let Ok(mut client) = pmi::Client::init(Script(bytes), "1", 0) else {
        return;
    };
    let _ = client.put("key", "value");
    let _ = client.fence();
    let _ = client.get("key");
    let _ = client.finalize();
}

fn message(bytes: &[u8]) {
    if let Some(message) = Message::decode(bytes) {
        let again = message.encode().expect("it came in one frame");
        assert_eq!(Message::decode(&again), Some(message));
    }
}

/// What answers an agent's greeting cannot know the secret.
fn supervisor(bytes: &[u8]) {
    let (agent, greeting) = Initiator::begin(Secret::new([1; 32])).expect("random numbers");
    let mut answer = [0; ANSWER_BYTES];
    // The head of a sound answer, and what the input makes of it.
    answer[..12].copy_from_slice(&greeting[..12]);
    for (at, byte) in answer.iter_mut().zip(bytes) {
        *at ^= byte;
    }
    assert!(agent.finish(&answer).is_err());
}

/// Nor can who greets.
fn agent(bytes: &[u8]) {
    let (_, mut greeting) = Initiator::begin(Secret::new([2; 32])).expect("random numbers");
    for (at, byte) in greeting.iter_mut().zip(bytes) {
        *at ^= byte;
    }
    let Ok((supervisor, answer)) = Responder::begin(Secret::new([1; 32]), &greeting) else {
        return;
    };
    let mut proof = [0; PROOF_BYTES];
    proof.copy_from_slice(&answer[GREETING_BYTES..]);
    for (at, byte) in proof.iter_mut().zip(bytes.iter().skip(GREETING_BYTES)) {
        *at ^= byte;
    }
    assert!(supervisor.finish(&proof).is_err());
}

/// A sealed message is opened as it was, or not at all.
fn frame(bytes: &[u8]) {
    let (agent, greeting) = Initiator::begin(Secret::new([1; 32])).expect("random numbers");
    let (supervisor, answer) =
        Responder::begin(Secret::new([1; 32]), &greeting).expect("a sound greeting");
    let (proof, mut agent) = agent.finish(&answer).expect("a sound answer");
    let mut supervisor = supervisor.finish(&proof).expect("a sound proof");
    let mut frame = agent.sealer.seal(b"message").expect("a short one");
    let sound = frame.clone();
    for (at, byte) in frame.iter_mut().zip(bytes) {
        *at ^= byte;
    }
    let (head, sealed) = frame
        .split_first_chunk_mut::<LENGTH_BYTES>()
        .expect("a head");
    let Ok(length) = Opener::length(*head) else {
        return;
    };
    let is_whole = length == sealed.len();
    let opened = supervisor.opener.open(*head, sealed).map(<[u8]>::to_vec);
    match opened {
        Ok(message) => assert!(is_whole && message == b"message"),
        Err(_) => assert_ne!(frame, sound),
    }
}

fn placement(text: &str) {
    let graph = topologies::parse("ring-3-1").expect("a topology").graph;
    let names = ["n1", "n2"].map(|name| Some(name.to_owned()));
    if let Ok(placement) = Placement::read(text, &graph, &Default::default(), &names) {
        let lines = placement.lines(&graph);
        let again = Placement::read(&lines, &graph, &Default::default(), &names);
        assert_eq!(again.expect("its own lines"), placement);
    }
}

/// Inputs to begin with: a whole rendez-vous, each message, frames and texts.
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    let answers = [
        "cmd=fullinit-response;rc=0;rank=0;size=3;",
        "cmd=kvs-put-response;rc=0;",
        "cmd=kvs-fence-response;rc=0;",
        "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;",
        "cmd=finalize-response;rc=0;",
    ];
    let framed = answers
        .map(|text| format!("{:<6}{text}", text.len()))
        .concat();
    let begun = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    let mut inputs = vec![
        format!("\0{begun}{framed}").into_bytes(),
        format!("\0{framed}").into_bytes(),
        b"\x05".iter().chain(b"2(x3),4").copied().collect(),
        b"\x06"
            .iter()
            .chain(b"0 s*\nn2 s1\n# x\n1 h0\n")
            .copied()
            .collect(),
    ];
    for who in 2..5 {
        inputs.push(vec![who]);
        inputs.push([vec![who], vec![0; 40], vec![1, 2, 3]].concat());
    }
    let hello = Hello {
        build: "0.1.0 (abc)".to_owned(),
        rank: Some(1),
        machine: "n2".to_owned(),
        credential: Some("MUNGE:x:".to_owned()),
    };
    for message in [
        Message::Hello(hello),
        Message::File {
            name: "fabric.json".to_owned(),
            bytes: vec![1, 2],
            is_last: true,
        },
        Message::Order {
            number: 3,
            order: Order::Join {
                ends: [(1, 2), (3, 4)],
            },
        },
        Message::Done {
            number: 3,
            outcome: Err("why".to_owned()),
        },
        Message::Open {
            stream: 1,
            socket: "h0.ctl".to_owned(),
        },
        Message::Data {
            stream: 1,
            is_last: true,
            bytes: vec![0; 9],
        },
    ] {
        inputs.push([vec![1], message.encode().expect("a short one")].concat());
    }
    inputs
}
