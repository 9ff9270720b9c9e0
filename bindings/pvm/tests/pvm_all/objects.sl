#! /usr/bin/env slsh
% Objects of S-Lang, there and back, by its module for PVM.
require ("pvm");

define child ()
{
   variable parent = pvm_parent (), i;
   for (i = 0; i < 300; i++)
     {
        () = pvm_recv (parent, -1);
        pvm_send_obj (parent, 2, pvm_recv_obj ());
     }
   pvm_exit ();
}

define parent ()
{
   variable tid, i, sum = 0.0;
   () = pvm_mytid ();
   tid = pvm_spawn (path_concat (getcwd (), "objects.sl"), PvmTaskDefault, "", 1);
   for (i = 0; i < 300; i++)
     {
        variable object = struct { number, text, numbers };
        object.number = i;
        object.text = "text " + string (i);
        object.numbers = [0:i*10] * 1.5;
        pvm_send_obj (tid, 1, object);
        () = pvm_recv (tid, -1);
        variable back = pvm_recv_obj ();
        if (back.number != i || back.text != object.text || any (back.numbers != object.numbers))
          {
             vmessage ("object %d is another one", i);
             exit (1);
          }
        % Meanwhile both agree.
        if (i < 20)
          sleep (0.004);
        sum += back.numbers[-1];
     }
   vmessage ("300 objects came back, %g", sum);
   pvm_exit ();
}

if (pvm_parent () > 0)
  child ();
else
  parent ();
