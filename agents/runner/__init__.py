"""From a call to answers: turns made of what is passed, stages run in order, start-up, traces."""
