document.querySelector('#cookies').hidden = false;
