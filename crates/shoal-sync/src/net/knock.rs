//! A newcomer at the doors of a run that is under way: it dials every server and hears from each that it is known there.
//! Only then may the workers be told of it, so that whoever is let in is at all doors, or dead.

use super::join::{readable, tune};
use super::meet::{Introduction, Meeting};
use super::reactor::Event;
use crate::control::Late;
use crate::error::SyncError;
use crate::handshake::{self, Refusal};
use crate::node::world::NodeId;
use crate::wire::{HEADER, Header, Kind};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

impl Meeting<'_> {
    pub fn knock(&mut self, late: &Late) -> Result<Vec<(NodeId, TcpStream)>, SyncError> {
        let dead = late.dead.iter().filter(|w| self.world.is_worker(**w));
        self.news.extend(dead.map(|w| Event::Lost {
            node: *w,
            how: "it died before this worker came".into(),
            incarnation: 0,
        }));
        let mut links = Vec::new();
        for shard in 0..self.roster.servers.len() {
            let stream = self.knock_at(shard, late.incarnation)?;
            links.push((self.world.shard_node(shard), tune(stream)?));
        }
        Ok(links)
    }

    /// Knocks until the server answers; it may itself still be on its way to the others.
    fn knock_at(&mut self, shard: usize, incarnation: u32) -> Result<TcpStream, SyncError> {
        let (run, generation) = (self.world.run, self.world.generation);
        let introduction = Introduction { node: self.me, run, generation, incarnation };
        let row = &self.roster.servers[shard];
        let (name, address) = (row.who.to_string(), row.address.clone());
        let mut pause = Duration::from_millis(20);
        loop {
            self.look()?;
            let broken = |e: std::io::Error| Refusal::Broken(e.to_string());
            let greeted = self.joining.dial_once(&address).and_then(|mut stream| {
                stream.write_all(&introduction.encode()).map_err(broken)?;
                Ok(stream)
            });
            let heard = match greeted {
                Ok(mut stream) => self.hear_welcome(&mut stream)?.map(|()| stream),
                Err(refusal) => Err(refusal),
            };
            match heard {
                Ok(stream) => return Ok(stream),
                Err(refusal) => self.joining.pause(&mut pause, refusal, &name, &address)?,
            }
        }
    }

    /// The server's loop says that it knows us. The outer error ends the whole attempt, the inner one this knock.
    fn hear_welcome(&mut self, stream: &mut TcpStream) -> Result<Result<(), Refusal>, SyncError> {
        let patience = Instant::now() + handshake::PATIENCE;
        while !readable(stream, Duration::from_millis(20)) {
            self.look()?;
            if Instant::now() > patience {
                return Ok(Err(Refusal::Silent));
            }
        }
        let mut bytes = [0u8; HEADER];
        let read = stream.set_read_timeout(Some(handshake::PATIENCE)).and_then(|()| stream.read_exact(&mut bytes));
        if let Err(e) = read {
            return Ok(Err(Refusal::Broken(e.to_string())));
        }
        Ok(match Header::decode(&bytes) {
            Ok(header) if header.kind == Kind::Welcome && header.run == self.world.run => Ok(()),
            Ok(header) => Err(Refusal::Broken(format!("it answered with {:?}", header.kind))),
            Err(e) => Err(Refusal::Broken(e.to_string())),
        })
    }
}
