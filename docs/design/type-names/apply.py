#!/usr/bin/env python3
"""Renames types and modules of Rust sources by their meaning, through rust-analyzer.

usage: apply.py ROOT NAMES.tsv...

Each line of a list is `file<TAB>OldType<TAB>NewType` or `mv<TAB>old/file.rs<TAB>new/file.rs`; types come first, then files.
What could not be renamed is printed. Commit before, and build after: text in comments and in macros is left as it is.
RUST_ANALYZER is the program to use.
"""
import json,subprocess,sys,os,re,threading,queue,time,urllib.parse
root=os.path.realpath(sys.argv[1]); maps=sys.argv[2:]
ra=subprocess.Popen([os.environ.get('RUST_ANALYZER','rust-analyzer')],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,cwd=root)
resp={}; notes=queue.Queue(); cv=threading.Condition(); state={'quiescent':False}
def reader():
    while True:
        n=None
        while True:
            l=ra.stdout.readline()
            if not l: return
            l=l.strip()
            if not l: break
            if l.lower().startswith(b'content-length:'): n=int(l.split(b':')[1])
        m=json.loads(ra.stdout.read(n))
        if 'method' in m and 'id' in m:
            r=None
            if m['method']=='workspace/configuration': r=[cfg for _ in m['params']['items']]
            send({'jsonrpc':'2.0','id':m['id'],'result':r})
        elif 'id' in m:
            with cv: resp[m['id']]=m; cv.notify_all()
        elif m.get('method')=='experimental/serverStatus':
            with cv: state['quiescent']=m['params'].get('quiescent',False); state['s']=m['params']; cv.notify_all()
wl=threading.Lock()
def send(o):
    b=json.dumps(o).encode()
    with wl:
        ra.stdin.write(b'Content-Length: %d\r\n\r\n'%len(b)+b); ra.stdin.flush()
ids=0
def call(method,params,timeout=600):
    global ids; ids+=1; i=ids
    send({'jsonrpc':'2.0','id':i,'method':method,'params':params})
    with cv:
        ok=cv.wait_for(lambda: i in resp,timeout)
        if not ok: raise SystemExit('timeout '+method)
        return resp.pop(i)
def note(method,params): send({'jsonrpc':'2.0','method':method,'params':params})
cfg={"checkOnSave":False,"procMacro":{"enable":False},"cargo":{"buildScripts":{"enable":False},"features":"all","targetDir":True},"cachePriming":{"enable":False},"diagnostics":{"enable":False},"files":{"watcher":"client","exclude":["target"]}}
threading.Thread(target=reader,daemon=True).start()
uri=lambda p:'file://'+urllib.parse.quote(p)
path=lambda u:urllib.parse.unquote(u[7:])
call('initialize',{'processId':os.getpid(),'rootUri':uri(root),'workspaceFolders':[{'uri':uri(root),'name':'w'}],'initializationOptions':cfg,
 'capabilities':{'general':{'positionEncodings':['utf-8']},'workspace':{'configuration':True,'didChangeWatchedFiles':{'dynamicRegistration':True},'workspaceEdit':{'documentChanges':True,'resourceOperations':['create','rename','delete']}},
 'experimental':{'serverStatusNotification':True}}})
note('initialized',{})
with cv:
    cv.wait_for(lambda: state['quiescent'],900)
print('ready',state.get('s'),flush=True)
def apply(edit):
    changed=set(); renames=[]
    chs=edit.get('documentChanges') or [{'textDocument':{'uri':u},'edits':e} for u,e in edit.get('changes',{}).items()]
    for c in chs:
        if c.get('kind')=='rename': renames.append((path(c['oldUri']),path(c['newUri']))); continue
        if 'kind' in c: print('skip',c); continue
        p=path(c['textDocument']['uri'])
        if not p.startswith(root): print('OUTSIDE',p); continue
        lines=open(p,'rb').read().split(b'\n')
        offs=[0]
        for l in lines: offs.append(offs[-1]+len(l)+1)
        data=b'\n'.join(lines)
        es=sorted({(offs[e['range']['start']['line']]+e['range']['start']['character'],offs[e['range']['end']['line']]+e['range']['end']['character'],e['newText']) for e in c['edits']},reverse=True)
        for a,b,t in es: data=data[:a]+t.encode()+data[b:]
        open(p,'wb').write(data); changed.add(p)
    ev=[{'uri':uri(p),'type':2} for p in changed]
    for a,b in renames:
        os.makedirs(os.path.dirname(b),exist_ok=True)
        subprocess.run(['git','mv',a,b],cwd=root,check=True)
        if os.path.isdir(b):
            pass
        ev+= [{'uri':uri(a),'type':3},{'uri':uri(b),'type':1}]
        if os.path.isdir(b):
            for d,_,fs in os.walk(b):
                for f in fs:
                    n=os.path.join(d,f); ev+=[{'uri':uri(n),'type':1},{'uri':uri(n.replace(b,a,1)),'type':3}]
    note('workspace/didChangeWatchedFiles',{'changes':ev})
    return len(changed)
done=fail=0
moved={}
for mp in maps:
    for line in open(mp):
        f=line.rstrip('\n').split('\t')
        if len(f)<3 or f[0] in('note','mv') or f[0].startswith('#'): continue
        file,old,new=f[0],f[1],f[2]
        if old==new: continue
        p=os.path.join(root,file)
        if not os.path.exists(p): print('NOFILE',file,old); fail+=1; continue
        s=open(p,'rb').read()
        m=re.search(rb'\b(?:struct|enum|trait|union|type)\s+(%s)\b'%old.encode(),s)
        if not m: print('NODEF',file,old); fail+=1; continue
        ln=s.count(b'\n',0,m.start(1)); col=m.start(1)-(s.rfind(b'\n',0,m.start(1))+1)
        for attempt in range(6):
            r=call('textDocument/rename',{'textDocument':{'uri':uri(p)},'position':{'line':ln,'character':col},'newName':new})
            if 'error' in r and ('content modified' in r['error']['message'] or r['error']['code'] in(-32801,-32800)): time.sleep(0.3); continue
            break
        if 'error' in r or not r.get('result'): print('FAIL',file,old,new,r.get('error')); fail+=1; continue
        n=apply(r['result']); done+=1
        if done%25==0: print(done,flush=True)
print('types done',done,'failed',fail,flush=True)
for mp in maps:
    for line in open(mp):
        f=line.rstrip('\n').split('\t')
        if f[0]!='mv' or not f[1].endswith('.rs'): continue
        old,new=f[1],f[2]
        if os.path.dirname(old)!=os.path.dirname(new): print('CROSS',old,new); fail+=1; continue
        d,stem=os.path.split(old); stem=stem[:-3]; nstem=os.path.basename(new)[:-3]
        if not os.path.exists(os.path.join(root,old)): print('NOFILE',old); fail+=1; continue
        parents=[d+'.rs',d+'/mod.rs',d+'/lib.rs',d+'/main.rs']
        ok=False
        for par in parents:
            p=os.path.join(root,par)
            if not os.path.exists(p): continue
            s=open(p,'rb').read()
            m=re.search(rb'^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(%s)\s*;'%stem.encode(),s,re.M)
            if not m: continue
            ln=s.count(b'\n',0,m.start(1)); col=m.start(1)-(s.rfind(b'\n',0,m.start(1))+1)
            for attempt in range(8):
                r=call('textDocument/rename',{'textDocument':{'uri':uri(p)},'position':{'line':ln,'character':col},'newName':nstem})
                if 'error' in r and r['error']['code'] in(-32801,-32800): time.sleep(0.3); continue
                break
            if 'error' in r or not r.get('result'): print('FAIL mod',old,new,r.get('error')); fail+=1; ok=True; break
            apply(r['result']); done+=1; ok=True; break
        if not ok: print('NOPARENT',old); fail+=1
print('done',done,'failed',fail)
call('shutdown',None); note('exit',None)
