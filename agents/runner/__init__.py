"""From a call to answers: turns made of what is passed, the stages run in order and in time, start-up, traces."""
