// Rounds of work for test_amqplib.py: `node amqplib_work.js ROUND URI NAME` prints one JSON value.
"use strict";

const amqp = require("amqplib");

/** Resolves when `emitter` emits `event`, with what it emits. */
function once(emitter, event) {
  return new Promise((resolve) => emitter.once(event, resolve));
}

/** Consumes until `count` messages came, acknowledging each. */
function collect(channel, queue, count) {
  return new Promise((resolve, reject) => {
    const messages = [];
    channel
      .consume(queue, (message) => {
        if (message === null) return reject(new Error("cancelled by the server"));
        messages.push(message);
        channel.ack(message);
        if (messages.length === count) resolve(messages);
      })
      .catch(reject);
  });
}

const rounds = {
  async confirms(connection, name) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(name, { exclusive: true });
    const confirmed = [];
    for (let number = 0; number < 100; number++) {
      channel.sendToQueue(name, Buffer.from(String(number)), {}, (error) => confirmed.push(error === null));
    }
    await channel.waitForConfirms();
    const { messageCount } = await channel.checkQueue(name);
    return { confirmed: confirmed.filter(Boolean).length, messageCount };
  },

  async refusals(connection, name) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(name, { exclusive: true, maxLength: 1, overflow: "reject-publish" });
    const outcomes = [];
    const publish = () =>
      new Promise((resolve) => channel.sendToQueue(name, Buffer.from("x"), {}, (error) => resolve(error !== null)));
    outcomes.push(await publish());
    outcomes.push(await publish());
    return outcomes;
  },

  async thousand(connection, name) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name, { exclusive: true });
    await channel.prefetch(20);
    const collected = collect(channel, name, 1000);
    for (let number = 0; number < 1000; number++) {
      channel.sendToQueue(name, Buffer.from(`message ${number}`), { persistent: number % 2 === 0 });
    }
    const messages = await collected;
    const { messageCount } = await channel.checkQueue(name);
    return {
      inOrder: messages.every((message, number) => message.content.toString() === `message ${number}`),
      redelivered: messages.filter((message) => message.fields.redelivered).length,
      messageCount,
    };
  },

  async prefetch(connection, name) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name, { exclusive: true });
    for (let number = 0; number < 10; number++) channel.sendToQueue(name, Buffer.from(String(number)));
    await channel.prefetch(4);
    const held = [];
    await new Promise((resolve) => {
      channel.consume(name, (message) => {
        held.push(message);
        if (held.length === 4) resolve();
      });
    });
    const { messageCount } = await channel.checkQueue(name);
    return { held: held.map((message) => message.content.toString()), messageCount };
  },

  async arguments(connection, name) {
    const channel = await connection.createChannel();
    channel.on("error", () => {});
    await channel.assertQueue(`${name}-dead`, { exclusive: true });
    const options = {
      exclusive: true,
      messageTtl: 30,
      expires: 60000,
      deadLetterExchange: "",
      deadLetterRoutingKey: `${name}-dead`,
      maxLength: 100,
      maxPriority: 5,
    };
    await channel.assertQueue(name, options);
    channel.sendToQueue(name, Buffer.from("short life"), { priority: 3, headers: { number: 1.5, list: [1, "two"] } });
    const [dead] = await collect(channel, `${name}-dead`, 1);
    const closed = once(channel, "error");
    channel.assertQueue(name, { ...options, messageTtl: 40 }).catch(() => {});
    const { code, message } = await closed;
    const [{ reason, queue, count }] = dead.properties.headers["x-death"];
    const { number, list } = dead.properties.headers;
    return { reason, queue, count, number, list, priority: dead.properties.priority, code, message };
  },

  async missing(connection, name) {
    const channel = await connection.createChannel();
    const emitted = once(channel, "error");
    const rejected = await channel.checkQueue(name).then(() => null, (error) => error.message);
    const { code, message } = await emitted;
    const next = await connection.createChannel(); // the connection lives on
    const { queue } = await next.assertQueue("", { exclusive: true });
    return { code, message, rejected, serverNamed: queue.startsWith("amq.gen-") };
  },

  async alternate(connection, name) {
    const channel = await connection.createConfirmChannel();
    await channel.assertExchange(`${name}-others`, "fanout", { autoDelete: true });
    await channel.assertExchange(name, "direct", { autoDelete: true, alternateExchange: `${name}-others` });
    const known = await channel.assertQueue("", { exclusive: true });
    const others = await channel.assertQueue("", { exclusive: true });
    await channel.bindQueue(known.queue, name, "known");
    await channel.bindQueue(others.queue, `${name}-others`, "");
    channel.publish(name, "known", Buffer.from("1"), { mandatory: true });
    channel.publish(name, "unknown", Buffer.from("2"), { mandatory: true });
    await channel.waitForConfirms();
    const first = await channel.get(known.queue, { noAck: true });
    const second = await channel.get(others.queue, { noAck: true });
    return {
      known: first.content.toString(),
      others: second.content.toString(),
      exchange: second.fields.exchange,
      routingKey: second.fields.routingKey,
      empty: await channel.get(known.queue),
    };
  },

  async returns(connection, name) {
    const channel = await connection.createConfirmChannel();
    const order = [];
    channel.on("return", (message) => order.push(["return", message.fields.replyCode, message.content.toString()]));
    channel.publish("", name, Buffer.from("lost"), { mandatory: true }, () => order.push(["confirm"]));
    await channel.waitForConfirms();
    return order;
  },

  async cancels(connection, name) {
    const channel = await connection.createChannel();
    await channel.assertQueue(name, { exclusive: true });
    const cancelled = new Promise((resolve) => channel.consume(name, resolve));
    await channel.checkQueue(name);
    await channel.deleteQueue(name);
    return cancelled;
  },
};

async function main([round, uri, name]) {
  const connection = await amqp.connect(uri);
  const result = await rounds[round](connection, name);
  await connection.close();
  process.stdout.write(JSON.stringify(result));
}

main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
});
